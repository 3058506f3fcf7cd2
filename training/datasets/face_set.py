"""Folders of faces, exclusion lists and the held-out share of people."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from model.errors import FaceError
from model.faces.image import SUFFIXES
from training.datasets.table import Table
from training.errors import UsageError
from training.inputs.crops import aligned_crops, why_lost

HELD_OUT_SHARE = 0.05


def named(root: Path) -> Path:
    """The absolute path, so that it ends in the folder's name even for ``.`` or ``..``.

    Symbolic links are not resolved: the folder keeps the name the user gave it.
    """
    return Path(os.path.abspath(root))


def read_root(root: Path, cache: Path, *, aligned: bool = True) -> tuple[np.ndarray, list[str]]:
    """Crops below one root and their names, ``root/path``."""
    root = named(root)
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise FaceError(f"{root} holds no pictures ({', '.join(sorted(SUFFIXES))}).")
    crops, found = aligned_crops(paths, aligned=aligned, cache=cache)
    rows = np.flatnonzero(found)
    if len(rows) < len(paths):
        lost = f"{len(paths) - len(rows):,} of {len(paths):,} pictures of {root}"
        if not len(rows):
            raise FaceError(f"{lost} {why_lost(aligned)}: none is left.")
        print(f"{lost} {why_lost(aligned)}: left out")
    names = [f"{root.name}/{paths[row].relative_to(root)}" for row in rows]
    return crops[rows] if len(rows) < len(paths) else crops, names


def held_out(name: str, share: float = HELD_OUT_SHARE) -> bool:
    """Whether ``root/name``, a person or face, is held out; decided by the hash of the name."""
    return hashlib.sha256(name.encode()).digest()[0] < 256 * share


def read_names(file: Path | None) -> frozenset[str]:
    """The names in a text file, one per line; empty if ``file`` is None."""
    if file is None:
        return frozenset()
    if not file.is_file():
        raise FaceError(f"There is no file {file}. --exclude takes a text file, one name per line.")
    return frozenset(filter(None, file.read_text().split("\n")))


def without(table: Table, list_of_names: Path | None) -> Table:
    """Drop the people on an exclusion list from a table.

    Raises:
        UsageError: The list names nobody in the table.
    """
    excluded = read_names(list_of_names)
    if not excluded:
        return table
    people = set(table.people)
    roots = {person.split("/")[0] for person in people}
    meant = {name for name in excluded if name.split("/")[0] in roots}
    if not meant:
        raise UsageError(f"{list_of_names} names nobody of {table.name}, such as {min(people)}.")
    if strange := meant - people:
        # Not an error: a list made for a whole dataset may be used on a part of it.
        print(f"{list_of_names} names {len(strange):,} who are not here, such as {min(strange)}")
    kept = np.array([person not in excluded for person in table.people])
    print(f"{table.name}: {(~kept).sum():,} pictures left out as {list_of_names} says")
    return table.subset(kept)
