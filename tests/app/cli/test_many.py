"""Many pairs and a heap of photos on the command line."""

from __future__ import annotations

import csv
import itertools
from pathlib import Path

import pytest

from app.batch.pairs import AnswersFile
from app.batch.sources import BadSource
from app.cli import main as cli
from app.service import FaceService
from app.settings import Settings
from app.usecases.many import Pair
from model import wording
from model.faces.image import load_image
from tests.app.helpers import Photos, encoded


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


def test_an_answer_that_a_crash_cut_short_does_not_count(
    tmp_path: Path, service: FaceService, photos: Photos
) -> None:
    names = ["=1+1.jpg", 'a "b".jpg', "line\nbreak.jpg", "-2.jpg"]
    listed = [Pair(first, second) for first, second in itertools.pairwise(names)]
    made = list(service.verify_many(listed, lambda name: photos.hopper))
    path = tmp_path / "answers.csv"
    answers, ends = AnswersFile(path), []
    for answer in made:
        ends.append(path.stat().st_size)
        answers.add(answer)
    whole = path.read_bytes()
    assert AnswersFile(path).unanswered(listed) == []
    assert not [line for line in csv.reader(path.open(newline="")) if line[0][0] in "=-"]
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        cut = AnswersFile(path)
        done = sum(end <= length for end in ends[1:])
        assert cut.unanswered(listed) == listed[done:], length
        for answer in made[done:]:
            cut.add(answer)
        assert path.read_bytes() == whole, length


def test_other_files_are_never_changed(tmp_path: Path) -> None:
    for content in (b"my notes\n", b"first,second\n", b"\xff\xfe\n"):
        (tmp_path / "notes.csv").write_bytes(content)
        with pytest.raises(BadSource):
            AnswersFile(tmp_path / "notes.csv")
        assert (tmp_path / "notes.csv").read_bytes() == content


def test_two_folders_are_compared_name_by_name(
    settings: Settings, tmp_path: Path, photos: Photos, capsys: pytest.CaptureFixture[str]
) -> None:
    for place, name, data in (
        ("a", "ann/1.jpg", photos.hopper), ("b", "ann/1.jpg", photos.hopper_again),
        ("a", "bo.jpg", photos.collins), ("b", "bo.jpg", photos.hopper),
        ("a", "twice.jpg", photos.hopper), ("b", "twice.jpg", photos.hopper),
        ("a", "copy.png", photos.hopper),
        ("b", "copy.png", encoded(load_image(photos.hopper), "PNG")),
        ("a", "several.jpg", photos.both), ("b", "several.jpg", photos.hopper),
        ("a", "alone.jpg", photos.hopper),
    ):  # fmt: skip
        (tmp_path / place / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place / name).write_bytes(data)
    report = tmp_path / "report.html"
    given = (
        "verify-many",
        tmp_path / "a",
        tmp_path / "b",
        "--report",
        report,
        "--note",
        "Case <7>",
    )
    assert run(settings, *given) == 0
    found = {Path(row["first"]).name: row for row in rows(tmp_path / "a-b-answered.csv")}
    assert {name: row["decision"] or row["error"] for name, row in found.items()} == {
        "1.jpg": "same", "bo.jpg": "different", "several.jpg": "several_faces", "twice.jpg": "same",
        "copy.png": "same",
    }  # fmt: skip
    assert {name for name, row in found.items() if row["headline"] == wording.SAME_FILE} == {
        "twice.jpg", "copy.png",
    }  # fmt: skip
    said = capsys.readouterr().out
    assert "alone.jpg" in said
    assert "5 pairs. Same person: 3, Different people: 1, No answer: 1." in said
    words = report.read_text()
    assert "Case &lt;7&gt;" in words
    assert words.count("<tr>") == 6
    assert run(settings, *given) == 0, "all is answered, and the report is made again"
    assert len(rows(tmp_path / "a-b-answered.csv")) == 5
    assert run(settings, "verify-many", tmp_path / "a", tmp_path / "none") == 3


def test_a_list_reads_nothing_outside_its_folder(settings: Settings, folder: Path) -> None:
    inner = folder / "in"
    inner.mkdir()
    (inner / "pairs.csv").write_text("../hopper.jpg,../hopper_again.jpg\n")
    assert run(settings, "verify-many", inner / "pairs.csv") == 0
    assert [row["error"] for row in rows(inner / "pairs-answered.csv")] == ["bad_image"]


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
