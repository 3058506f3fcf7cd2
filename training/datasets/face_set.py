"""Folders of aligned faces as one set, with a stable group of people held out."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

import numpy as np

from model.embedding.embedder import Embedder
from model.errors import FaceError
from model.faces.image import SUFFIXES
from model.types import CROP_SIZE
from training.datasets.table import Table
from training.distill.teacher import teacher_targets
from training.errors import UsageError
from training.inputs.crops import aligned_crops, why_lost

HELD_OUT_SHARE = 0.05
CROP = (CROP_SIZE, CROP_SIZE, 3)
LOOSE = -1
"""Label of a face whose person is unknown."""


@dataclass(frozen=True)
class FaceSet:
    """Crops with labels.

    Attributes:
        crops: uint8 ``(N, 112, 112, 3)``.
        labels: int ``(N,)``, counting people from 0; ``LOOSE`` where the person is unknown.
        names: Per face, ``root/person`` or, for a loose face, ``root/path``.
        targets: A teacher's unit vectors ``(N, D)``, or None.
    """

    crops: np.ndarray
    labels: np.ndarray
    names: np.ndarray
    targets: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.crops)


def load_faces(
    people: Sequence[Path],
    loose: Sequence[Path] = (),
    photos: Sequence[Path] = (),
    *,
    exclude: Path | None = None,
    spare: Mapping[str, float] = MappingProxyType({}),
    teacher: Embedder | None = None,
    cache: Path,
) -> tuple[FaceSet, FaceSet]:
    """``(training, held_out)``: no person is in both.

    Held out are the people whose hashed name, the folder's and theirs, falls into a fixed
    twentieth, so every run and every command agrees on them as long as the folder keeps its name.
    Loose faces are all for training.

    Args:
        people: Roots with one folder a person.
        loose: Roots of faces whose people are unknown.
        photos: The same, but of photos that are still to be searched for a face and aligned.
        exclude: Text file, a line each, of names as in :attr:`FaceSet.names` to leave out.
        spare: By name of a root of ``photos``, the share to leave out, so that something can be
            measured on it.
        teacher: Fills :attr:`FaceSet.targets`.
        cache: Folder for decoded crops and targets.

    Raises:
        FaceError: A root holds no picture, ``exclude`` names someone who is not in it, or
            ``spare`` names no root of ``photos``.
    """
    if not (people or loose or photos):
        raise FaceError("No folder of faces was given.")
    people, loose, photos = ([named(root) for root in roots] for roots in (people, loose, photos))
    names = [root.name for root in (*people, *loose, *photos)]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise FaceError(f"Two folders are called {twice!r}: people of both would be mixed up.")
    if strange := set(spare) - {root.name for root in photos}:
        raise FaceError(f"There is no folder {min(strange)!r} among the photos to spare some of.")
    excluded = read_names(exclude)
    training: list[FaceSet] = []
    kept_back: list[FaceSet] = []
    for root in [*people, *loose, *photos]:
        crops, names = read_root(root, root not in people, cache, aligned=root not in photos)
        targets = teacher_targets(teacher, crops, cache=cache) if teacher else None
        if unknown := {name for name in excluded if name.startswith(f"{root.name}/")} - set(names):
            raise FaceError(f"{exclude} names {min(unknown)!r}, which is not in {root}.")
        spared = spare.get(root.name, 0.0) if root in photos else 0.0
        wanted = np.array([name not in excluded and not held_out(name, spared) for name in names])
        back = np.array([root in people and held_out(name) for name in names])
        labels = np.full(len(names), 0 if root in people else LOOSE)
        for part, mask in ((training, wanted & ~back), (kept_back, wanted & back)):
            rows = np.flatnonzero(mask)
            part.append(
                FaceSet(
                    crops[rows], labels[rows], np.array(names)[rows],
                    None if targets is None else targets[rows],
                )
            )  # fmt: skip
    return _join(training), _join(kept_back)


def _join(parts: list[FaceSet]) -> FaceSet:
    """One set of several, which are taken out of the list: crops are too many to hold twice."""
    targets = [part.targets for part in parts if part.targets is not None]
    names = np.concatenate([part.names for part in parts])
    labels = np.concatenate([part.labels for part in parts])
    known = labels != LOOSE
    labels[known] = np.unique(names[known], return_inverse=True)[1]
    crops = parts.pop().crops if len(parts) == 1 else np.empty((len(names), *CROP), np.uint8)
    filled = 0
    while parts:
        part = parts.pop(0)
        crops[filled : filled + len(part)] = part.crops
        filled += len(part)
    return FaceSet(crops, labels, names, np.concatenate(targets) if targets else None)


def named(root: Path) -> Path:
    """The same folder by a path that ends in its name, also if given as ``.`` or ``..``.

    Links are not followed: a folder is called what its user calls it.
    """
    return Path(os.path.abspath(root))


def read_root(
    root: Path, unlabelled: bool, cache: Path, *, aligned: bool = True
) -> tuple[np.ndarray, list[str]]:
    """Crops below one root and, per crop, its name as in :attr:`FaceSet.names`."""
    root = named(root)
    paths = sorted(path for path in root.rglob("*") if path.suffix.lower() in SUFFIXES)
    if not paths:
        raise FaceError(f"{root} holds no pictures ({', '.join(sorted(SUFFIXES))}).")
    crops, found = aligned_crops(paths, aligned=aligned, cache=cache)
    names = [
        f"{root.name}/{path.relative_to(root) if unlabelled else path.relative_to(root).parts[0]}"
        for path in paths
    ]
    rows = np.flatnonzero(found)
    if len(rows) < len(paths):
        lost = f"{len(paths) - len(rows):,} of {len(paths):,} pictures of {root}"
        if not len(rows):
            raise FaceError(f"{lost} {why_lost(aligned)}: none is left.")
        print(f"{lost} {why_lost(aligned)}: left out")
    return crops[rows] if len(rows) < len(paths) else crops, [names[row] for row in rows]


def check_held_out(faces: FaceSet) -> None:
    """See that there are pairs of one person and of two to judge by.

    Raises:
        FaceError: There are not.
    """
    photos = np.unique(faces.labels, return_counts=True)[1]
    if not len(photos):
        raise FaceError("Nobody is held out to judge by: give --people, a few dozen at least.")
    if len(photos) < 2 or photos.max() < 2:
        raise FaceError(
            f"{len(photos)} people with at most {photos.max()} photos each are held out: that "
            "makes no pairs of one person and of two. Give --people more of them."
        )


def held_out(name: str, share: float = HELD_OUT_SHARE) -> bool:
    """Whether a person or face, ``root/name``, is in a fixed share to be left out."""
    return hashlib.sha256(name.encode()).digest()[0] < 256 * share


def read_names(file: Path | None) -> frozenset[str]:
    """The lines of a list of people and faces; nobody without a file."""
    if file is None:
        return frozenset()
    if not file.is_file():
        raise FaceError(f"There is no file {file}. --exclude takes a text file, a name a line.")
    return frozenset(filter(None, file.read_text().split("\n")))


def shares(text: str) -> dict[str, float]:
    """``FOLDER:SHARE,...`` of ``--spare``, the share of each folder to leave out, by its name.

    Raises:
        UsageError: It is not like that, or names a folder twice.
    """
    found: dict[str, float] = {}
    for part in filter(None, text.split(",")):
        folder, _, share = part.rpartition(":")
        try:
            value = float(share)
        except ValueError:
            value = math.nan
        if not (folder and 0 <= value < 1):
            raise UsageError(f"--spare {text} is not like utkface:0.25 (folder:share below 1).")
        if folder in found:
            raise UsageError(f"--spare names {folder!r} twice.")
        found[folder] = value
    return found


def without(table: Table, list_of_names: Path | None) -> Table:
    """A table without the people and faces of a list.

    Raises:
        UsageError: It names nobody of the table.
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
        # No mistake as such: a list made for a whole collection serves a part of it too.
        print(f"{list_of_names} names {len(strange):,} who are not here, such as {min(strange)}")
    kept = np.array([person not in excluded for person in table.people])
    print(f"{table.name}: {(~kept).sum():,} pictures left out as {list_of_names} says")
    return table.subset(kept)
