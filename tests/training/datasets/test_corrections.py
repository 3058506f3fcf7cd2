"""Wrong names are set right, and a wrong list of them is refused."""

from __future__ import annotations

import csv
import hashlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from training.datasets import Table, lfw
from training.datasets.corrections import corrected
from training.datasets.table import DatasetError


def table() -> Table:
    """Ann has two photos, Anne (who is Ann) one, Bob three."""
    names = ("Ann", "Anne", "Bob")
    labels = np.array([0, 0, 1, 2, 2, 2])
    paths = tuple(Path("people", names[label], f"{row}.jpg") for row, label in enumerate(labels))
    return Table("people", paths, labels, names, faces=True)


def written(folder: Path, *lines: str) -> Path:
    file = folder / "wrong.csv"
    file.write_text("\n".join(("name,person,why", *lines)) + "\n", encoding="utf-8")
    return file


def test_people_are_joined_and_photos_moved_or_left_out(tmp_path: Path) -> None:
    file = written(tmp_path, "Anne,Ann,one name", "Bob/3.jpg,Ann,", "Bob/5.jpg,,blurred")
    right = corrected(table(), file)
    assert right.labels[right.kept].tolist() == [0, 0, 0, 0, 2]
    assert right.kept.tolist() == [True] * 5 + [False]
    digest = hashlib.sha256(file.read_bytes()).hexdigest()[:12]
    assert right.in_words(np.arange(6)) == (
        f"by wrong.csv ({digest}), photos given to another person: 2, left out: 1"
    )
    assert right.in_words(np.array([0, 2])).endswith("another person: 1, left out: 0")


def test_all_of_a_folder_may_be_wrong_but_one(tmp_path: Path) -> None:
    right = corrected(table(), written(tmp_path, "Bob,Ann,", "Bob/4.jpg,Bob,"))
    assert right.labels.tolist() == [0, 0, 1, 0, 2, 0]


def test_a_photo_goes_before_its_folder(tmp_path: Path) -> None:
    right = corrected(table(), written(tmp_path, "Bob,,unknown", "Bob/4.jpg,Ann,"))
    assert right.kept.tolist() == [True, True, True, False, True, False]
    assert right.labels[4] == 0


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        (["Carl,Ann,"], "corrects 'Carl', which is not in people"),
        (["Bob/9.jpg,Ann,"], "corrects 'Bob/9.jpg'"),
        (["Anne,Carl,"], "the person 'Carl', who is not in people"),
        (["Anne,Ann,", "Ann,Bob,"], "corrects 'Ann' and also uses it"),
        (["Anne,Ann,", "Anne,Bob,"], "names 'Anne' twice in line 3"),
        ([",Bob,"], "has no name in line 2"),
        (["", "Anne"], "has 1 of 3 columns in line 3"),
        (["Anne,Ann,one, really"], "has 4 of 3 columns in line 2"),
    ],
)
def test_a_wrong_list_is_refused(tmp_path: Path, lines: list[str], complaint: str) -> None:
    with pytest.raises(DatasetError, match=complaint):
        corrected(table(), written(tmp_path, *lines))


def test_a_file_that_is_no_list_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="There is no file"):
        corrected(table(), tmp_path / "nothing.csv")
    (tmp_path / "other.csv").write_text("who,whom\nAnn,Bob\n")
    with pytest.raises(DatasetError, match="columns name and person"):
        corrected(table(), tmp_path / "other.csv")
    (tmp_path / "latin.csv").write_bytes("name,person\nAnné,Ann\n".encode("latin-1"))
    with pytest.raises(DatasetError, match="not a CSV file in UTF-8"):
        corrected(table(), tmp_path / "latin.csv")


def test_what_is_said_of_lfw_is_so(shared_data: Path) -> None:
    everyone = lfw.load(shared_data)
    right = corrected(everyone, lfw.CORRECTIONS)
    touched = right.moved | ~right.kept
    train = lfw.dev_rows(shared_data, everyone, "DevTrain")
    assert set(np.flatnonzero(touched)) <= set(train)
    assert set(right.labels[right.moved]) <= set(everyone.labels[train])
    photos = {path.stem: path for path in everyone.paths}
    with lfw.CORRECTIONS.open(newline="", encoding="utf-8") as file:
        twice = [row for row in csv.DictReader(file) if row["why"].startswith("the same photo as")]
    assert len(twice) == 4
    assert (~right.kept).sum() == 6
    for row in twice:
        pair = Path(row["name"]).stem, row["why"].rpartition(" ")[2]
        one, other = (np.asarray(Image.open(photos[name]).convert("L")).ravel() for name in pair)
        assert np.corrcoef(one, other)[0, 1] > 0.95
