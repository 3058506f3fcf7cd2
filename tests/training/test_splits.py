"""Splits: nothing shared that must not be, nothing lost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from training.datasets.face_set import held_out
from training.datasets.table import DatasetError, Table
from training.errors import UsageError
from training.splits import SPLITS, split, split_name


def table(name: str = "cub", classes: int = 20, each: int = 10, **extra: object) -> Table:
    labels = np.repeat(np.arange(classes), each)
    paths = tuple(Path(f"root/{label}/{row}.jpg") for row, label in enumerate(labels))
    return Table(name, paths, labels, tuple(map(str, range(classes))), **extra)


@pytest.mark.parametrize("name", SPLITS)
def test_parts_are_disjoint_and_complete(name: str) -> None:
    data = table(classes=200, each=3)
    parts = split(data, name)
    rows = np.concatenate([parts.train, parts.val, parts.test])
    assert sorted(rows) == list(range(len(data)))
    assert split_name(parts.describe(data)) == parts.name == name


def test_paper_shares_classes_and_keeps_the_makers_test() -> None:
    official = np.arange(200) % 2 == 0
    data = table(official_train=official)
    parts = split(data, "paper")
    assert set(parts.test) == set(np.flatnonzero(~official))
    for rows in (parts.train, parts.val, parts.test):
        assert set(data.labels[rows]) == set(range(20)) or len(rows) < 20
    assert len(parts.val) == pytest.approx(0.1 * official.sum(), abs=10)


def test_zero_shot_takes_the_first_half_of_the_classes() -> None:
    data = table()
    parts = split(data, "zero_shot")
    assert set(data.labels[parts.train]) == set(range(8))
    assert set(data.labels[parts.val]) == {8, 9}
    assert set(data.labels[parts.test]) == set(range(10, 20))


@pytest.mark.parametrize("official", [None, np.arange(200) < 150])
def test_identity_disjoint_shares_nobody(official: np.ndarray | None) -> None:
    data = table(official_train=official)
    parts = split(data, "identity_disjoint", seed=3)
    people = [set(data.labels[rows]) for rows in (parts.train, parts.val, parts.test)]
    assert sum(map(len, people)) == len(set.union(*people))
    if official is not None:
        assert people[2] == set(range(15, 20))


def test_seed_decides() -> None:
    data = table()
    first, again, other = (split(data, "identity_disjoint", seed=seed) for seed in (1, 1, 2))
    assert (first.test == again.test).all()
    assert set(first.test) != set(other.test)


@pytest.mark.parametrize("name", ["zero_shot", "identity_disjoint"])
def test_few_classes_still_leave_impostors_to_choose_by(name: str) -> None:
    data = table(classes=8, each=3)
    parts = split(data, name)
    assert len(set(data.labels[parts.val])) == 2
    assert len(set(data.labels[parts.train])) >= 2
    parts.check_val(data)


def test_val_without_pairs_cannot_be_chosen_by() -> None:
    data = table(classes=6)
    with pytest.raises(UsageError, match="no impostor pairs"):
        split(data, "zero_shot").check_val(data)
    data = table(each=5)
    with pytest.raises(UsageError, match="no genuine pairs"):
        split(data, "paper").check_val(data)


def test_names_and_sizes_are_checked() -> None:
    with pytest.raises(ValueError, match="must be one of paper"):
        split(table(), "zeroshot")
    with pytest.raises(DatasetError, match="needs at least 6"):
        split(table(classes=4), "zero_shot")


def test_a_class_in_two_folders_is_on_one_side_of_held_out() -> None:
    data = table(classes=200, each=4)
    paths = tuple(
        Path(f"{'cars_train' if row % 2 else 'cars_test'}/inner/{row}.jpg") for row in range(800)
    )
    parts = split(replace(data, paths=paths), "held_out")
    sides = [set(data.labels[rows]) for rows in (parts.train, parts.val, parts.test)]
    assert sum(map(len, sides)) == 200


def test_held_out_are_the_people_distillation_holds_out() -> None:
    data = table(classes=200, each=3)
    parts = split(data, "held_out")
    back = {label for label in range(200) if held_out(f"root/{label}")}
    assert set(data.labels[parts.val]) | set(data.labels[parts.test]) == back
    assert not set(data.labels[parts.val]) & set(data.labels[parts.test])
    with pytest.raises(DatasetError, match="too few people"):
        split(table(classes=5), "held_out")
