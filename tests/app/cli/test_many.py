"""Many pairs and a heap of photos on the command line."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from app.cli import main as cli
from app.settings import Settings
from tests.app.helpers import Photos


@pytest.fixture
def folder(tmp_path: Path, photos: Photos) -> Path:
    place = tmp_path / "photos"
    place.mkdir()
    for name, data in vars(photos).items():
        (place / f"{name}.jpg").write_bytes(data)
    return place


def run(settings: Settings, *arguments: object) -> int:
    where = ["--data", str(settings.data), "--bundle", str(settings.bundle)]
    return cli.main([str(arguments[0]), *where, *map(str, arguments[1:])])


def rows(file: Path) -> list[dict[str, str]]:
    with file.open(newline="") as lines:
        return list(csv.DictReader(lines))


def test_pairs_are_answered_one_a_line_and_a_second_run_goes_on(
    settings: Settings, folder: Path
) -> None:
    pairs = folder / "pairs.csv"
    pairs.write_text("first,second\nhopper.jpg,hopper_again.jpg\ncollins.jpg,nobody.jpg\n")
    assert run(settings, "verify-many", pairs) == 0
    answers = folder / "pairs-answered.csv"
    same, failed = rows(answers)
    assert same["decision"] == "same"
    assert same["headline"].startswith("Same person")
    assert (failed["decision"], failed["error"]) == ("", "no_face")
    with pairs.open("a") as file:
        file.write("collins.jpg,hopper.jpg\n")
    before = answers.read_text()
    assert run(settings, "verify-many", pairs) == 0
    assert answers.read_text().startswith(before)
    assert [row["decision"] for row in rows(answers)] == ["same", "", "different"]


def test_a_list_that_is_no_list_of_pairs_is_wrong_usage(settings: Settings, folder: Path) -> None:
    (folder / "one.csv").write_text("only.jpg\n")
    assert run(settings, "verify-many", folder / "one.csv") == 3
    assert run(settings, "verify-many", folder / "none.csv") == 3


def test_a_heap_is_sorted_into_one_folder_a_person(settings: Settings, folder: Path) -> None:
    assert run(settings, "cluster", folder) == 0
    sorted_ = folder.with_name("photos-sorted")
    groups = [
        {file.name for file in place.iterdir()}
        for place in sorted_.iterdir() if place.is_dir()
    ]  # fmt: skip
    assert len(groups) == 2
    assert {"hopper.jpg", "hopper_again.jpg"} in groups
    assert {"collins.jpg", "collins_again.jpg"} in groups
    sheet = (sorted_ / "index.html").read_text()
    assert "both.jpg" in sheet
    assert "nobody.jpg" in sheet
    assert run(settings, "cluster", folder) == 3, "nothing is overwritten"


def test_verify_writes_a_report(settings: Settings, folder: Path, tmp_path: Path) -> None:
    report = tmp_path / "out.html"
    code = run(
        settings, "verify", folder / "hopper.jpg", folder / "hopper_again.jpg",
        "--report", report, "--note", "Case <7>",
    )  # fmt: skip
    assert code == 0
    words = report.read_text()
    assert "Case &lt;7&gt;" in words
    assert "Same person" in words
    assert 'src="http' not in words
