"""The faces of several stores as one: who is learnt from, who is held out, who is left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.datasets.face_set import held_out
from training.distill.store import FaceStore

TURNED, TURNED_TIMES = 25.0, 3
"""Faces turned by so many degrees or more are shown so many times as often."""

PEOPLE = {"celeba": 1, "celeba_test": 1, "celeba_wild": 1, "bollywood": 1, "fiw": 2}
"""Stores whose first folders name a person, and how many folders that takes."""


@dataclass(frozen=True, eq=False)
class Faces:
    """Rows of several stores.

    Attributes:
        stores: Where they lie.
        store: Which store each face is in, ``(N,)``.
        row: Its row there, ``(N,)``.
        people: Name of the person, empty where unknown, ``(N,)``.
        yaw: Degrees it is turned, ``(N,)``.
    """

    stores: tuple[FaceStore, ...]
    store: np.ndarray
    row: np.ndarray
    people: np.ndarray
    yaw: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: np.ndarray) -> Faces:
        return Faces(
            self.stores, self.store[rows], self.row[rows], self.people[rows], self.yaw[rows]
        )

    def crops(self, rows: np.ndarray) -> np.ndarray:
        """uint8 ``(len(rows), 112, 112, 3)``."""
        return np.stack([self._at(row, "crops") for row in rows])

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The teachers' vectors, float32."""
        return np.stack([self._at(row, "vectors") for row in rows]).astype(np.float32)

    def _at(self, row: int, kind: str) -> np.ndarray:
        shards = getattr(self.stores[self.store[row]], kind)
        place = int(self.row[row])
        for shard in shards:
            if place < len(shard):
                return shard[place]
            place -= len(shard)
        raise IndexError(row)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """All faces in random order, turned ones several times."""
        times = np.where(np.abs(self.yaw) >= TURNED, TURNED_TIMES, 1)
        rows = np.repeat(np.arange(len(self)), times)
        return np.random.default_rng((seed, epoch)).permutation(rows)


def person(store: str, path: str) -> str:
    """``collection/person`` of a photo, or nothing; CelebA's stores share their people."""
    depth = PEOPLE.get(store)
    if depth is None:
        return ""
    return "/".join([store.split("_")[0], *Path(path).parts[:depth]])


def family(name: str) -> str:
    """What is held out together: a person, or a whole family."""
    return "/".join(name.split("/")[:2])


def gather(folders: Sequence[Path], left_out: frozenset[str]) -> tuple[Faces, Faces]:
    """``(training, held_out)`` faces of prepared stores; no person is in both.

    Args:
        folders: Stores.
        left_out: Names of people, or ``store/path`` of faces, to leave out.
    """
    stores = tuple(FaceStore.open(folder) for folder in folders)
    store = np.concatenate([np.full(len(s), k) for k, s in enumerate(stores)])
    row = np.concatenate([np.arange(len(s)) for s in stores])
    names = [person(s.name, path) for s in stores for path in s.paths]
    files = [f"{s.name}/{path}" for s in stores for path in s.paths]
    everything = Faces(stores, store, row, np.array(names), np.concatenate([s.yaw for s in stores]))
    wanted = np.array(
        [
            name not in left_out and file not in left_out
            for name, file in zip(names, files, strict=True)
        ]
    )
    back = np.array([bool(name) and held_out(family(name)) for name in names])
    return (
        everything.take(np.flatnonzero(wanted & ~back)),
        everything.take(np.flatnonzero(wanted & back)),
    )
