"""Batch enrollment end to end: stored, reported, resumed after a kill, nothing done twice."""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

from app import batch, enroll, looking
from app.looking import _start as start
from app.results import DetectedFace, Upload
from app.service import FaceService
from app.settings import Settings
from app.sources import Item
from tests import samples
from tests.app import helpers
from tests.app.conftest import Photos

ROOT = Path(__file__).parents[2]


def rows(report: Path) -> dict[str, dict[str, str]]:
    with report.open(encoding="utf-8", newline="") as file:
        return {row["file"]: row for row in csv.DictReader(file)}


def filled(folder: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(data)
    return folder


def source(folder: Path, photos: Photos) -> Path:
    everything = {
        "Eileen/1.jpg": photos.collins,
        "Eileen/2.jpg": photos.collins_again,
        "Eileen/same.jpg": photos.collins,
        "Grace/1.jpg": photos.hopper,
        "Grace/empty.jpg": b"",
        "Grace/junk.jpg": b"\xff\xd8\xff junk",
        "Impostor/1.jpg": photos.hopper_again,
        "Nobody/1.png": photos.nobody,
        "Two/1.jpg": photos.both,
    }
    return filled(folder, everything)


def run(settings: Settings, *arguments: object) -> int:
    return enroll.main(
        ["--data", str(settings.data), "--bundle", str(settings.bundle), "--quiet",
         *map(str, arguments)]
    )  # fmt: skip


def statuses(report: Path) -> dict[str, str]:
    return {file: row["status"] for file, row in rows(report).items()}


def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files a run looks at, once they are."""
    files: list[str] = []
    original = batch.BatchEnroller._look

    def watched(self: batch.BatchEnroller, item: Item, look: looking.Look) -> object:
        files.append(item.file)
        return original(self, item, look)

    monkeypatch.setattr(batch.BatchEnroller, "_look", watched)
    return files


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
    assert statuses(report) == {
        "Eileen/1.jpg": "accepted",
        "Eileen/2.jpg": "accepted",
        "Eileen/same.jpg": "already",
        "Grace/1.jpg": "accepted",
        "Grace/empty.jpg": "bad_image",
        "Grace/junk.jpg": "bad_image",
        "Impostor/1.jpg": "conflict",
        "Nobody/1.png": "no_face",
        "Two/1.jpg": "several_faces",
    }
    assert all(row["message"].endswith(".") for row in found.values())
    assert "--faces largest_central" in found["Two/1.jpg"]["message"]
    assert "3 accepted" in capsys.readouterr().out
    service = FaceService.open(settings)
    assert {person.name: person.photos for person in service.people()} == {"Eileen": 2, "Grace": 1}
    service.close()
    # Again: only what is not stored is looked at, and nothing is told twice.
    monkeypatch.setattr(looking, "ENOUGH", 1000)
    files = looked_at(monkeypatch)
    assert run(settings, folder, "--report", report) == 1
    assert sorted(files) == [
        "Grace/empty.jpg", "Grace/junk.jpg", "Impostor/1.jpg", "Nobody/1.png", "Two/1.jpg",
    ]  # fmt: skip
    assert rows(report) == found
    assert len(report.read_text().splitlines()) == 1 + len(found)


def test_what_a_report_says_counts_only_while_it_is_true(
    settings: Settings, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = filled(
        tmp_path / "people",
        {"Eileen/1.jpg": photos.collins, "Grace/1.jpg": photos.hopper,
         "Impostor/1.jpg": photos.hopper_again},
    )  # fmt: skip
    report = tmp_path / "report.csv"
    anyway = ("--report", report, "--accept", "conflict", "--reason", "twins")
    files = looked_at(monkeypatch)
    assert run(settings, folder, "--report", report) == 1
    assert statuses(report)["Impostor/1.jpg"] == "conflict"
    files.clear()
    assert run(settings, folder, *anyway) == 0, "a reason given later counts"
    assert files == ["Impostor/1.jpg"]

    service = FaceService.open(settings)
    service.forget(rows(report)["Grace/1.jpg"]["person_id"])
    service.close()
    files.clear()
    assert run(settings, folder, *anyway) == 0
    assert files == ["Grace/1.jpg"], "who was forgotten is enrolled again"

    (folder / "Eileen/1.jpg").write_bytes(photos.collins_again)
    files.clear()
    assert run(settings, folder, *anyway) == 0
    assert files == ["Eileen/1.jpg"], "another photo under the same name is another photo"

    elsewhere = replace(settings, data=tmp_path / "other")
    assert run(elsewhere, folder, *anyway) == 0
    service = FaceService.open(elsewhere)
    assert service.count() == 3, "another gallery has nobody yet"
    service.close()


def test_a_report_is_of_one_source(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.csv"
    for name in ("a", "b"):
        filled(tmp_path / name / "people", {"portrait.jpg": photos.collins})
    assert run(settings, tmp_path / "a" / "people", "--report", report) == 1
    before = report.read_bytes()
    assert run(settings, tmp_path / "b" / "people", "--report", report) == 3
    assert "is the report of" in capsys.readouterr().err
    assert report.read_bytes() == before


def test_photos_without_a_name_and_rows_without_a_photo_are_told(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report.csv"
    folder = filled(
        tmp_path / "flat", {"portrait.jpg": photos.hopper, "Eileen_1.jpg": photos.collins}
    )
    assert run(settings, folder, "--report", report) == 1
    assert statuses(report) == {"portrait.jpg": "no_name", "Eileen_1.jpg": "accepted"}
    (folder / "list.csv").write_text(
        "name;path\nEileen;Eileen_1.jpg\n;portrait.jpg\nGrace;Eileen_1.jpg\n"
    )
    assert run(settings, folder / "list.csv", "--report", tmp_path / "list.jsonl") == 1
    told = [json.loads(line) for line in (tmp_path / "list.jsonl").read_text().splitlines()]
    assert sorted((line["file"], line["name"], line["status"]) for line in told) == [
        ("Eileen_1.jpg", "Eileen", "already"),
        ("Eileen_1.jpg", "Grace", "duplicate"),
        ("portrait.jpg", "", "bad_row"),
    ]
    assert "1 bad_row" in capsys.readouterr().out
    (folder / "list.csv").write_text("name;path\nEileen;Eileen_1.jpg\nGrace;portrait.jpg\n")
    assert run(settings, folder / "list.csv", "--report", tmp_path / "list.jsonl") == 0


def test_people_are_given_the_facts_they_lack_and_keep_those_they_have(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled(tmp_path / "in", {"1.jpg": photos.collins, "2.jpg": photos.collins_again,
                                      "3.jpg": photos.hopper})  # fmt: skip
    table = folder / "list.csv"

    def facts() -> dict[str, tuple[str, dict]]:
        service = FaceService.open(settings)
        people = {person.name: (person.consent, person.metadata) for person in service.people()}
        service.close()
        return people

    def enrolled(*lines: str) -> int:
        table.write_text("\n".join(["name,path,consent,team", *lines]))
        return run(settings, table, "--report", tmp_path / "report.csv")

    assert enrolled("Eileen,1.jpg,,", "Eileen,2.jpg,by mail,", "Grace,3.jpg,,") == 0
    assert facts() == {"Eileen": ("by mail", {}), "Grace": ("", {})}
    assert enrolled("Eileen,1.jpg,on paper,blue", "Grace,3.jpg,by mail,") == 0
    assert facts() == {"Eileen": ("by mail", {"team": "blue"}), "Grace": ("by mail", {})}
    assert "Eileen keeps the consent 'by mail', not 'on paper'." in capsys.readouterr().out


def test_a_new_photo_does_not_replace_the_consent(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    service = FaceService.open(settings)
    service.enroll("Eileen", [Upload("1.jpg", photos.collins)], consent="by mail")
    service.close()
    folder = filled(tmp_path / "in", {"2.jpg": photos.collins_again})
    (folder / "list.csv").write_text("name,path,consent\nEileen,2.jpg,on paper\n")
    assert run(settings, folder / "list.csv", "--report", tmp_path / "report.csv") == 0
    service = FaceService.open(settings)
    assert [(person.consent, person.photos) for person in service.people()] == [("by mail", 2)]
    service.close()


def test_a_report_that_cannot_be_written_is_noticed_before_anyone_is_stored(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = filled(tmp_path / "in", {"Eileen/1.jpg": photos.collins})
    assert run(settings, folder, "--report", tmp_path / "no" / "report.csv") == 3
    assert "cannot be written" in capsys.readouterr().err
    assert not settings.gallery_folder.exists()


def test_what_nobody_foresaw_is_a_sentence_and_no_verdict_on_photos(
    settings: Settings, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = filled(tmp_path / "in", {"Eileen/1.jpg": photos.collins})
    report = ("--report", tmp_path / "report.csv")
    (tmp_path / "file").write_text("no folder")
    assert run(replace(settings, data=tmp_path / "file"), folder, *report) == 3

    def broken(*_: object) -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr(enroll, "open_source", broken)
    capsys.readouterr()
    assert run(settings, folder, *report) == 8
    error = capsys.readouterr().err
    assert "RuntimeError: boom" in error
    assert "Traceback" not in error


def test_the_pace_is_that_of_the_photos_not_of_loading_the_model(
    settings: Settings, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = filled(tmp_path / "in", {"Eileen/1.jpg": photos.collins})
    now = 0.0
    original = FaceService.open

    def slow(*given: object, **options: object) -> FaceService:
        nonlocal now
        now += 100
        return original(*given, **options)

    monkeypatch.setattr(FaceService, "open", slow)
    passing = itertools.count()
    clock = SimpleNamespace(perf_counter=lambda: now + next(passing))
    monkeypatch.setattr(enroll, "time", clock)
    assert run(settings, folder, "--report", tmp_path / "report.csv") == 0
    assert "1 photos in 1 s, 1.0 photos/s." in capsys.readouterr().out


def test_without_the_report_what_is_stored_is_recognised(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    (tmp_path / "in" / "Eileen").mkdir(parents=True)
    (tmp_path / "in" / "Eileen" / "1.jpg").write_bytes(photos.collins)
    assert run(settings, tmp_path / "in", "--report", tmp_path / "one.csv") == 0
    assert run(settings, tmp_path / "in", "--report", tmp_path / "two.jsonl") == 0
    assert '"already"' in (tmp_path / "two.jsonl").read_text()


def test_dry_run_finds_the_same_and_stores_nothing(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = source(tmp_path / "people", photos)
    report = tmp_path / "dry.csv"
    assert run(settings, folder, "--report", report, "--dry-run") == 1
    found = rows(report)
    assert found["Eileen/1.jpg"]["status"] == "accepted"
    assert "would be" in found["Eileen/1.jpg"]["message"]
    assert found["Nobody/1.png"]["status"] == "no_face"
    assert found["Eileen/same.jpg"]["status"] == "already"
    assert "not with each other" in capsys.readouterr().out
    service = FaceService.open(settings)
    assert service.count() == 0
    service.close()
    # Another dry run starts anew, and a real one has everything to do.
    (folder / "Nobody/1.png").write_bytes(photos.hopper_again)
    run(settings, folder, "--report", report, "--dry-run")
    assert statuses(report)["Nobody/1.png"] == "accepted"
    run(settings, folder, "--report", report)
    assert "was stored" in rows(report)["Eileen/1.jpg"]["message"]
    assert run(settings, folder, "--report", report, "--dry-run") == 3


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
    files = looked_at(monkeypatch)
    reported: set[str] = set()
    add = enroll.Report.add
    chances = np.random.default_rng(3)

    def sometimes_killed(self: enroll.Report, lines: list) -> None:
        # Before or after the report's line, but after the commit: the worst moments.
        if chances.random() < 0.25:
            raise KeyboardInterrupt
        add(self, lines)
        reported.update(line.file for line in lines if line.stored)
        if chances.random() < 0.25:
            raise KeyboardInterrupt

    monkeypatch.setattr(enroll.Report, "add", sometimes_killed)
    options = ("--report", report, "--accept", "conflict", "--reason", "a test", "--workers", 2)
    codes = []
    for _ in range(40):
        before = set(reported)
        files.clear()
        codes.append(run(settings, folder, *options))
        assert not before & set(files)
        if codes[-1] != 130:
            break
    assert codes[-1] == 1
    assert len(codes) > 2
    found = rows(report)
    assert len(found) == count
    assert {row["status"] for row in found.values()} == {"accepted", "already", "no_face"}
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
    while not report.exists() or not rows(report):
        time.sleep(0.05)
        assert process.poll() is None
    helpers_of_it = psutil.Process(process.pid).children(recursive=True)
    assert len(helpers_of_it) >= 2
    process.send_signal(signal.SIGKILL)
    process.wait()
    # Nobody may be there to collect them; a zombie has ended too.
    alive = psutil.wait_procs(helpers_of_it, timeout=20)[1]
    assert all(each.status() == psutil.STATUS_ZOMBIE for each in alive), alive
    done = sum(status == "accepted" for status in statuses(report).values())
    assert done < 160
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
