"""Batch enrollment end to end: stored, reported, nobody's facts lost."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from app.batch import detect_workers
from app.cli import enroll
from app.context import Context
from app.service import FaceService
from app.settings import Settings
from app.usecases import enroll as enroll_photos
from app.usecases.results import Upload
from index.search import PeopleSearch
from model.errors import IndexUnavailable
from tests.app.batch.helpers import filled, looked_at, rows, run, statuses
from tests.app.helpers import Photos
from tests.paths import ROOT


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


@pytest.mark.parametrize("enough", [1, 1000], ids=["processes", "threads"])
def test_a_folder_with_everything_in_it(
    settings: Settings,
    photos: Photos,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    enough: int,
) -> None:
    monkeypatch.setattr(detect_workers, "ENOUGH", enough)
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
    monkeypatch.setattr(detect_workers, "ENOUGH", 1000)
    files = looked_at(monkeypatch)
    assert run(settings, folder, "--report", report) == 1
    assert sorted(files) == [
        "Grace/empty.jpg", "Grace/junk.jpg", "Impostor/1.jpg", "Nobody/1.png", "Two/1.jpg",
    ]  # fmt: skip
    assert rows(report) == found
    assert len(report.read_text().splitlines()) == 1 + len(found)


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


def test_names_that_are_no_utf_8_stop_nobody_else(
    settings: Settings,
    photos: Photos,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    folder = filled(
        tmp_path / os.fsdecode(b"people\xfe"),
        {
            "Eileen/1.jpg": photos.collins,
            os.fsdecode(b"Grace/\xff.jpg"): photos.hopper,
            os.fsdecode(b"Ann\xff/1.jpg"): photos.nobody,
        },
    )
    assert run(settings, folder) == 1
    report = tmp_path / "people\\xfe.enrolled.csv"
    stored = {"Eileen/1.jpg": "accepted", "Grace/\\xff.jpg": "accepted"}
    assert statuses(report) == {**stored, "Ann\\xff/1.jpg": "no_name"}
    assert "Report: people\\xfe.enrolled.csv" in capsys.readouterr().out
    files = looked_at(monkeypatch)
    assert run(settings, folder) == 1
    assert not files
    assert "2 of 3 photos are stored" in capsys.readouterr().out


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


def test_an_outage_ends_the_run_and_the_next_one_goes_on(
    settings: Settings, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    folder = filled(tmp_path / "in", {"Eileen/1.jpg": photos.collins, "Grace/1.jpg": photos.hopper})
    report = tmp_path / "report.csv"
    original = PeopleSearch.sync

    def away_after_the_first_person(self: PeopleSearch, **options: bool) -> int:
        if self.gallery.reader.count():
            raise IndexUnavailable("The engine is away.")
        return original(self, **options)

    with monkeypatch.context() as outage:
        outage.setattr(PeopleSearch, "sync", away_after_the_first_person)
        assert run(settings, folder, "--report", report) == 7
    assert "The engine is away." in capsys.readouterr().err
    assert statuses(report) == {"Eileen/1.jpg": "accepted"}
    files = looked_at(monkeypatch)
    assert run(settings, folder, "--report", report) == 0
    assert files == ["Grace/1.jpg"]
    assert statuses(report) == {"Eileen/1.jpg": "accepted", "Grace/1.jpg": "accepted"}


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["stored", "dry"])
def test_a_gallery_that_fails_is_no_verdict_on_photos(
    settings: Settings, photos: Photos, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    dry: tuple[str, ...],
) -> None:  # fmt: skip
    folder = filled(tmp_path / "in", {"Eileen/1.jpg": photos.collins})
    original = enroll_photos.findings

    def closing(context: Context, *given: object) -> object:
        context.gallery.close()
        return original(context, *given)

    monkeypatch.setattr(enroll_photos, "findings", closing)
    report = tmp_path / "report.csv"
    assert run(settings, folder, "--report", report, *dry) == 7
    assert statuses(report) == {}


def test_a_refusal_is_the_result_of_its_photos_alone(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    service = FaceService.open(settings)
    service.enroll("Eileen", [Upload("1.jpg", photos.collins)])
    service.enroll("Eileen", [Upload("2.jpg", photos.hopper)], new_person=True)
    service.close()
    folder = filled(
        tmp_path / "in", {"Eileen/3.jpg": photos.collins_again, "Nobody/1.png": photos.nobody}
    )
    report = tmp_path / "report.csv"
    assert run(settings, folder, "--report", report) == 1
    assert statuses(report) == {"Eileen/3.jpg": "conflict", "Nobody/1.png": "no_face"}
    assert "2 people are named" in rows(report)["Eileen/3.jpg"]["message"]


def test_a_group_photo_is_already_stored_for_each_of_its_people(
    settings: Settings, photos: Photos, tmp_path: Path
) -> None:
    service = FaceService.open(settings)
    for name, face in (("Grace", 1), ("Eileen", 2)):
        service.enroll(name, [Upload("both.jpg", photos.both, face=face)])
    service.close()
    names = ("Grace", "Eileen", "Other")
    folder = filled(tmp_path / "in", {f"{name}/both.jpg": photos.both for name in names})
    report = tmp_path / "report.csv"
    assert run(settings, folder, "--report", report) == 1
    assert statuses(report) == {
        "Grace/both.jpg": "already", "Eileen/both.jpg": "already", "Other/both.jpg": "duplicate",
    }  # fmt: skip


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


def test_the_options_are_documented() -> None:
    parser = enroll._parser()
    assert isinstance(parser, argparse.ArgumentParser)
    text = parser.format_help()
    for option in ("--dry-run", "--report", "--faces", "--accept", "exit codes"):
        assert option in text


def test_the_summary_counts_every_status_and_names_what_may_be_accepted(
    settings: Settings, photos: Photos, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = source(tmp_path / "people", photos)
    report = tmp_path / "report.csv"
    assert run(settings, folder, "--report", report) == 1
    told = capsys.readouterr().out
    counted = {words[1]: int(words[0]) for line in told.splitlines()
               if len(words := line.split()) == 2 and words[0].isdigit()}  # fmt: skip
    assert counted == Counter(statuses(report).values())
    # Only a conflict may be stored all the same; what shows no face, or two, may not.
    assert re.findall(r"--accept (\w+)", told) == ["conflict"]
    assert str(report) in told
    (folder / "Impostor/1.jpg").unlink()
    assert run(settings, folder, "--report", report) == 1
    assert "--accept" not in capsys.readouterr().out
