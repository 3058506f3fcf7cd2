"""Batch enrollment end to end: stored, reported, resumed after a kill, nothing done twice."""

from __future__ import annotations

import argparse
import csv
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest

from app import batch, enroll, looking
from app.looking import _start as start
from app.results import DetectedFace
from app.service import FaceService
from app.settings import Settings
from tests import samples
from tests.app import helpers
from tests.app.conftest import Photos

ROOT = Path(__file__).parents[2]


def rows(report: Path) -> dict[str, dict[str, str]]:
    with report.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def source(folder: Path, photos: Photos) -> Path:
    for name, data in {
        "Eileen/1.jpg": photos.collins,
        "Eileen/2.jpg": photos.collins_again,
        "Eileen/same.jpg": photos.collins,
        "Grace/1.jpg": photos.hopper,
        "Grace/empty.jpg": b"",
        "Grace/junk.jpg": b"\xff\xd8\xff junk",
        "Impostor/1.jpg": photos.hopper_again,
        "Nobody/1.png": photos.nobody,
        "Two/1.jpg": photos.both,
    }.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def run(settings: Settings, *arguments: object) -> int:
    return enroll.main(
        ["--data", str(settings.data), "--bundle", str(settings.bundle), "--quiet",
         *map(str, arguments)]
    )  # fmt: skip


@pytest.mark.parametrize("enough", [1, 1000], ids=["processes", "threads"])
def test_a_folder_with_everything_in_it(
    settings: Settings,
    photos: Photos,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    enough: int,
) -> None:
    monkeypatch.setattr(looking, "ENOUGH", enough)
    folder = source(tmp_path / "people", photos)
    report = tmp_path / "report.csv"
    assert run(settings, folder, "--report", report, "--workers", 2) == 1
    found = rows(report)
    assert {file: row["status"] for file, row in found.items()} == {
        "Eileen/1.jpg": "accepted",
        "Eileen/2.jpg": "accepted",
        "Eileen/same.jpg": "duplicate",
        "Grace/1.jpg": "accepted",
        "Grace/empty.jpg": "bad_image",
        "Grace/junk.jpg": "bad_image",
        "Impostor/1.jpg": "conflict",
        "Nobody/1.png": "no_face",
        "Two/1.jpg": "several_faces",
    }
    assert all(row["message"].endswith(".") for row in found.values())
    assert "3 accepted" in capsys.readouterr().out
    service = FaceService.open(settings)
    assert {person.name: person.photos for person in service.people()} == {"Eileen": 2, "Grace": 1}
    service.close()
    # Again: nothing is done twice, not even loading the model.
    before = report.read_bytes()
    started = time.process_time()
    assert run(settings, folder, "--report", report) == 1
    assert time.process_time() - started < 1
    assert report.read_bytes() == before


def test_without_the_report_what_is_stored_is_recognised(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    (tmp_path / "in" / "Eileen").mkdir(parents=True)
    (tmp_path / "in" / "Eileen" / "1.jpg").write_bytes(photos.collins)
    assert run(settings, tmp_path / "in", "--report", tmp_path / "one.csv") == 0
    assert run(settings, tmp_path / "in", "--report", tmp_path / "two.jsonl") == 0
    assert '"already"' in (tmp_path / "two.jsonl").read_text()


def test_dry_run_finds_the_same_and_stores_nothing(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    folder = source(tmp_path / "people", photos)
    report = tmp_path / "dry.csv"
    assert run(settings, folder, "--report", report, "--dry-run") == 1
    found = rows(report)
    assert found["Eileen/1.jpg"]["status"] == "accepted"
    assert "would be" in found["Eileen/1.jpg"]["message"]
    assert found["Nobody/1.png"]["status"] == "no_face"
    service = FaceService.open(settings)
    assert service.count() == 0
    service.close()


def test_policy_and_overrides(settings: Settings, photos: Photos, tmp_path: Path) -> None:
    folder = source(tmp_path / "people", photos)
    report = tmp_path / "report.csv"
    run(settings, folder, "--report", report, "--faces", "largest_central",
        "--accept", "conflict", "--reason", "a test")  # fmt: skip
    found = rows(report)
    assert found["Impostor/1.jpg"]["status"] == "accepted"
    assert found["Two/1.jpg"]["status"] == "accepted"
    with pytest.raises(SystemExit) as ended:
        run(settings, folder, "--accept", "conflict")
    assert ended.value.code == 3


@pytest.mark.parametrize("arguments", [("/no/such/folder",), (str(ROOT / "pyproject.toml"),)])
def test_errors_have_their_exit_code(
    settings: Settings, arguments: tuple[str, ...], tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    assert run(settings, *arguments, "--report", tmp_path / "r.csv") == 3
    assert "no/such" in (err := capsys.readouterr().err) or "pyproject" in err


def many(folder: Path, count: int) -> Path:
    """One photo a person, each file different, every face the same two."""
    originals = [helpers.encoded(samples.collins()[:256, 100:356]), helpers.blank()]
    for number in range(count):
        file = folder / f"P{number:03}" / "1.jpg"
        file.parent.mkdir(parents=True)
        # Bytes after the end of a JPEG change its hash and nothing else.
        file.write_bytes(originals[number % 8 == 7] + str(number).encode())
    return folder


def test_killed_again_and_again_it_finishes_without_doing_work_twice(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = 40
    folder = many(tmp_path / "many", count)
    report = tmp_path / "report.csv"
    monkeypatch.setattr(batch, "BATCH", 4)
    reported: set[str] = set()
    twice: list[str] = []
    original = batch.BatchEnroller._look

    def watched(self: batch.BatchEnroller, item: object, look: object) -> object:
        if item.file in reported:
            twice.append(item.file)
        return original(self, item, look)

    monkeypatch.setattr(batch.BatchEnroller, "_look", watched)
    add = enroll.Report.add
    chances = np.random.default_rng(3)

    def sometimes_killed(self: enroll.Report, lines: list) -> None:
        # Before or after the report's line, but after the commit: the worst moments.
        if chances.random() < 0.25:
            raise KeyboardInterrupt
        add(self, lines)
        reported.update(line.file for line in lines)
        if chances.random() < 0.25:
            raise KeyboardInterrupt

    monkeypatch.setattr(enroll.Report, "add", sometimes_killed)
    options = ("--report", report, "--accept", "conflict", "--reason", "a test", "--workers", 2)
    codes = []
    for _ in range(40):
        codes.append(run(settings, folder, *options))
        if codes[-1] != 130:
            break
    assert codes[-1] == 1
    assert len(codes) > 2
    assert not twice
    found = rows(report)
    assert len(found) == count
    statuses = {row["status"] for row in found.values()}
    assert statuses == {"accepted", "already", "no_face"}
    service = FaceService.open(settings)
    assert service.count() == sum(number % 8 != 7 for number in range(count))
    assert all(person.photos == 1 for person in service.people())
    service.close()


@pytest.mark.slow
def test_kill_nine_in_the_middle_then_the_same_command(settings: Settings, tmp_path: Path) -> None:
    folder = many(tmp_path / "many", 160)
    report = tmp_path / "report.csv"
    command = [
        sys.executable, "-m", "app.enroll", folder, "--report", report, "--data", settings.data,
        "--bundle", settings.bundle, "--accept", "conflict", "--reason", "a test", "--quiet",
        "--workers", 2,
    ]  # fmt: skip
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(list(map(str, command)), cwd=ROOT, env=environment)
    while not report.exists():
        time.sleep(0.05)
        assert process.poll() is None
    helpers_of_it = psutil.Process(process.pid).children(recursive=True)
    assert len(helpers_of_it) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Nobody may be there to collect them; a zombie has ended too.
    alive = psutil.wait_procs(helpers_of_it, timeout=20)[1]
    assert all(each.status() == psutil.STATUS_ZOMBIE for each in alive), alive
    done = len(report.read_text().splitlines()) - 1
    assert 0 <= done < 160
    finished = subprocess.run(
        list(map(str, command)), cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert finished.returncode == 1, finished.stderr
    assert f"{done} of 160" in finished.stdout or done == 0
    assert len(rows(report)) == 160
    service = FaceService.open(settings)
    assert service.count() == 140
    service.close()


def test_the_options_are_documented() -> None:
    parser = enroll._parser()
    assert isinstance(parser, argparse.ArgumentParser)
    text = parser.format_help()
    for option in ("--dry-run", "--report", "--faces", "--accept", "exit codes"):
        assert option in text


def test_a_photo_that_ends_its_process_spoils_no_other(
    settings: Settings, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_start", deadly_start)
    processes = looking._Processes(2, settings, "exactly_one")
    with ThreadPoolExecutor(3) as pool:
        files = {"1.jpg": photos.collins, "deadly.jpg": b"deadly", "2.jpg": photos.hopper}
        found = dict(zip(files, pool.map(processes.look, files.values(), files), strict=True))
    processes.close()
    assert found["deadly.jpg"].status == "bad_image"
    assert "ended the process" in found["deadly.jpg"].message
    assert all(isinstance(found[name], DetectedFace) for name in ("1.jpg", "2.jpg"))


def deadly_start(given: Settings, policy: str) -> None:
    """Starts a worker that a certain photo kills."""
    start(given, policy)
    plain = looking._look_here

    def sometimes(data: bytes, file: str) -> object:
        if data == b"deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(data, file)

    looking._look_here = sometimes


@pytest.mark.parametrize(
    ("processors", "asked", "expected"),
    [(1, None, (1, 1)), (2, None, (2, 1)), (4, None, (4, 1)), (8, None, (8, 2)),
     (64, None, (8, 21)), (2, 1, (1, 1)), (8, 3, (3, 2))],
)  # fmt: skip
def test_processors_are_shared_between_looking_and_the_network(
    monkeypatch: pytest.MonkeyPatch, processors: int, asked: int | None, expected: tuple[int, int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert batch.lookers_and_threads(asked) == expected
