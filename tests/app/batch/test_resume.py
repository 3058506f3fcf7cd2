"""A batch taken up again: after a kill, with another report, another gallery, other photos."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import psutil
import pytest

from app.batch import enroller
from app.cli import enroll
from app.service import FaceService
from app.settings import Settings
from tests import samples
from tests.app import helpers
from tests.app.batch.helpers import filled, looked_at, rows, run, statuses
from tests.app.helpers import Photos
from tests.paths import ROOT


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


def test_without_the_report_what_is_stored_is_recognised(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    (tmp_path / "in" / "Eileen").mkdir(parents=True)
    (tmp_path / "in" / "Eileen" / "1.jpg").write_bytes(photos.collins)
    assert run(settings, tmp_path / "in", "--report", tmp_path / "one.csv") == 0
    assert run(settings, tmp_path / "in", "--report", tmp_path / "two.jsonl") == 0
    assert '"already"' in (tmp_path / "two.jsonl").read_text()


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
    monkeypatch.setattr(enroller, "BATCH", 4)
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
