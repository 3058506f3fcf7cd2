"""Labeled Faces in the Wild: 13,233 photos of 5,749 people (Huang et al., 2008)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from training.datasets.table import DatasetError, Table, by_folder, require, require_count

WHERE = (
    "Give a scikit-learn data_home (the folder that holds lfw_home/lfw_funneled); "
    "sklearn.datasets.fetch_lfw_people() downloads it, with the lists of pairs only. "
    "peopleDevTrain.txt and peopleDevTest.txt come from http://vis-www.cs.umass.edu/lfw/ and "
    "belong into lfw_home."
)
CORRECTIONS = Path(__file__).with_name("lfw_corrections.csv")
"""Label errors in DevTrain. They were found by viewing a model's highest impostor and lowest
genuine scores. DevTest and View 2 stay as published, so that results are comparable.
"""


@dataclass(frozen=True, eq=False)
class Pairs:
    """The verification protocol of View 2.

    Attributes:
        first: Table row of each pair's first photo, int64 ``(6000,)``.
        second: Table row of the second photo, int64 ``(6000,)``.
        same: bool ``(6000,)``, True for two photos of one person.
        fold: int64 ``(6000,)``, 0..9.
    """

    first: np.ndarray
    second: np.ndarray
    same: np.ndarray
    fold: np.ndarray


def load(root: Path) -> Table:
    """Load all people in folder order; ``official_train`` is DevTrain.

    Without ``peopleDevTrain.txt``, ``official_train`` is None and ``notes`` says so.
    """
    home = _home(root)
    pictures = home / "lfw_funneled"
    paths, labels, names = by_folder(pictures, frozenset({".jpg"}))
    require_count(len(names), 5_749, "people", "LFW")
    require_count(len(paths), 13_233, "photos", "LFW")
    table = Table("lfw", tuple(paths), np.array(labels), tuple(names), faces=True)
    if not (home / "peopleDevTrain.txt").is_file():
        return replace(table, notes=(f"peopleDevTrain.txt is not here. {WHERE}",))
    people = _people(home / "peopleDevTrain.txt")
    return replace(table, official_train=np.array([names[label] in people for label in labels]))


def people40(root: Path) -> Table:
    """The paper's subset: people with at least 40 photos (19 people, 1,867 photos).

    The same photos as scikit-learn's ``fetch_lfw_people(min_faces_per_person=40)``.
    """
    table = load(root)
    counts = np.bincount(table.labels)
    subset = table.subset(counts[table.labels] >= 40)
    require_count(len(subset.names), 19, "people with at least 40 photos", "LFW")
    return replace(subset, official_train=None, notes=())


def view2(root: Path, table: Table) -> Pairs:
    """The 6,000 pairs of ``pairs.txt`` in ten folds, as rows of ``table``."""
    home = _home(root)
    require(home, ("pairs.txt",), "LFW", WHERE)
    lines = (home / "pairs.txt").read_text().splitlines()
    folds, each = (int(value) for value in lines[0].split())
    row = {path.name: index for index, path in enumerate(table.paths)}
    first, second, same, fold = [], [], [], []
    for number, line in enumerate(lines[1:]):
        parts = line.split("\t")
        if len(parts) == 3:
            left, right = (parts[0], parts[1]), (parts[0], parts[2])
        else:
            left, right = (parts[0], parts[1]), (parts[2], parts[3])
        first.append(row[_file(*left)])
        second.append(row[_file(*right)])
        same.append(len(parts) == 3)
        fold.append(number // (2 * each))
    require_count(len(first), folds * each * 2, "pairs in pairs.txt", "LFW")
    return Pairs(np.array(first), np.array(second), np.array(same), np.array(fold))


def dev_rows(root: Path, table: Table, part: str) -> np.ndarray:
    """Rows of the people of ``DevTrain`` or ``DevTest``, the official identity split."""
    if part not in ("DevTrain", "DevTest"):
        raise ValueError(f"part is {part!r}; it must be DevTrain or DevTest")
    home = _home(root)
    require(home, (f"people{part}.txt",), "LFW", WHERE)
    people = _people(home / f"people{part}.txt")
    return np.flatnonzero([table.names[label] in people for label in table.labels])


def _home(root: Path) -> Path:
    for home in (root / "lfw_home", root):
        if (home / "lfw_funneled").is_dir():
            return home
    raise DatasetError(f"LFW: {root} holds no lfw_home/lfw_funneled. {WHERE}")


def _people(path: Path) -> set[str]:
    lines = path.read_text().splitlines()
    people = {line.split("\t")[0] for line in lines[1:] if line.strip()}
    require_count(len(people), int(lines[0]), f"people in {path.name}", "LFW")
    return people


def _file(name: str, number: str) -> str:
    return f"{name}_{int(number):04d}.jpg"
