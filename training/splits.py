"""Train, validation and test splits. Every reported number names its split."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from training.datasets.face_set import HELD_OUT_SHARE, held_out
from training.datasets.table import DatasetError, Table
from training.errors import UsageError

SPLITS = ("paper", "zero_shot", "identity_disjoint", "held_out")
PAPER_VAL = {"cub": 0.1, "cars": 0.2}
TEST_SHARE = 0.2


@dataclass(frozen=True, eq=False)
class Split:
    """Rows of a table for each purpose.

    Attributes:
        name: One of :data:`SPLITS`.
        train: Rows to train on.
        val: Rows for model selection: the classes of ``train`` under ``paper``, else other classes.
        test: Rows to report on; evaluated once.
        note: One sentence on how the split was drawn.
    """

    name: str
    train: np.ndarray
    val: np.ndarray
    test: np.ndarray
    note: str

    def describe(self, table: Table) -> str:
        """One line: the name, and the number of pictures and classes in each part."""
        parts = (
            f"{part} {len(rows):,} of {len(set(table.labels[rows])):,} classes"
            for part, rows in (("train", self.train), ("val", self.val), ("test", self.test))
        )
        return f"split {self.name}: {'; '.join(parts)} ({self.note})"

    def check_val(self, table: Table) -> None:
        """Check that ``val`` can be used for model selection.

        Raises:
            UsageError: ``val`` has no genuine or no impostor pairs, so d' is undefined.
        """
        counts = np.unique(table.labels[self.val], return_counts=True)[1]
        missing = "impostor" if len(counts) < 2 else "genuine" if counts.max() < 2 else None
        if missing:
            raise UsageError(
                f"val has no {missing} pairs to choose by: take another --split than {self.name}, "
                "or leave out --patience and --choose"
            )


def split_name(description: str) -> str:
    """The split's name, read from the output of :meth:`Split.describe`."""
    return description.removeprefix("split ").partition(":")[0]


def split(table: Table, name: str, seed: int = 0) -> Split:
    """Split a table.

    Args:
        name: ``paper``: all parts share the classes; test is the official one if there is one.
            ``zero_shot``: trains on the first half of the classes, tests on the second; the last
            tenth of the first half is ``val``. ``identity_disjoint``: the official identity split
            if there is one, else a random 80/20 of the classes; a tenth of the training classes
            is ``val``. ``held_out``: the people ``distill`` also holds out, half of them as
            ``val``, half as ``test``. A tenth is at least two classes, unless that would leave
            fewer than two to train on.
    """
    if name not in SPLITS:
        raise ValueError(f"split is {name!r}; it must be one of {', '.join(SPLITS)}")
    rng = np.random.default_rng(seed)
    if name == "paper":
        return _paper(table, rng)
    if name == "zero_shot":
        return _zero_shot(table)
    if name == "held_out":
        return _held_out(table)
    return _identity_disjoint(table, rng)


def _paper(table: Table, rng: np.random.Generator) -> Split:
    everyone = np.arange(len(table))
    official = table.official_train
    if official is not None and not table.faces and not official.all():
        rest, test = everyone[official], everyone[~official]
        note = "the makers' test part"
    else:
        test = _share_of_each_class(table.labels, everyone, TEST_SHARE, rng)
        rest = np.setdiff1d(everyone, test)
        note = f"{TEST_SHARE:.0%} of each class at random as test"
    share = PAPER_VAL.get(table.name, 0.1)
    val = _share_of_each_class(table.labels, rest, share, rng)
    train = np.setdiff1d(rest, val)
    return Split("paper", train, val, test, f"{note}, {share:.0%} of the rest of each class as val")


def _zero_shot(table: Table) -> Split:
    classes = len(table.names)
    half = classes // 2
    held = _choosing(half)
    if half - held < 2:
        raise DatasetError(f"{table.name} has {classes} classes; zero_shot needs at least 6.")
    part = np.digitize(table.labels, [half - held, half])
    train, val, test = (np.flatnonzero(part == index) for index in range(3))
    note = f"classes 1-{half - held} / {half - held + 1}-{half} / {half + 1}-{classes}"
    return Split("zero_shot", train, val, test, note)


def _identity_disjoint(table: Table, rng: np.random.Generator) -> Split:
    labels, official = table.labels, table.official_train
    if official is not None and not set(labels[official]) & set(labels[~official]):
        train_classes = np.unique(labels[official])
        test = np.flatnonzero(~official)
        note = "the makers' identity split"
    else:
        order = rng.permutation(len(table.names))
        cut = max(1, round(TEST_SHARE * len(order)))
        train_classes = np.sort(order[cut:])
        test = np.flatnonzero(np.isin(labels, order[:cut]))
        note = f"{TEST_SHARE:.0%} of the classes at random as test"
    if len(train_classes) < 3:
        raise DatasetError(f"{table.name} has too few classes for identity_disjoint.")
    held = rng.choice(train_classes, _choosing(len(train_classes)), replace=False)
    val = np.flatnonzero(np.isin(labels, held))
    train = np.flatnonzero(np.isin(labels, np.setdiff1d(train_classes, held)))
    return Split("identity_disjoint", train, val, test, f"{note}, {len(held):,} others as val")


def _held_out(table: Table) -> Split:
    # A class with pictures in two folders has two names: if either is held out, the class is.
    classes = np.unique(table.labels[[held_out(person) for person in table.people]])
    back = np.isin(table.labels, classes)
    if len(classes) < 4:
        raise DatasetError(
            f"{table.name} has too few people for held_out: {len(classes)} are held out."
        )
    choosing = back & np.isin(table.labels, classes[::2])
    train, val, test = map(np.flatnonzero, (~back, choosing, back & ~choosing))
    note = f"{HELD_OUT_SHARE:.0%} of the people by hashed name, half of them to choose by"
    return Split("held_out", train, val, test, note)


def _choosing(classes: int) -> int:
    """Number of validation classes: a tenth, but two if possible, as one has no impostor pairs."""
    return max(classes // 10, 2 if classes >= 4 else 1)


def _share_of_each_class(
    labels: np.ndarray, rows: np.ndarray, share: float, rng: np.random.Generator
) -> np.ndarray:
    """A random share of every class's rows; at least one if the class has three rows."""
    chosen = []
    for label in np.unique(labels[rows]):
        own = rows[labels[rows] == label]
        count = round(share * len(own)) or int(len(own) >= 3)
        chosen.append(rng.choice(own, count, replace=False))
    return np.sort(np.concatenate(chosen))
