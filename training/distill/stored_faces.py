"""Faces of several stores as one dataset, split into training and held-out people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from training.datasets.face_set import held_out
from training.distill.store import FaceStore

TURNED, TURNED_TIMES = 25.0, 3
"""Faces with a yaw of at least ``TURNED`` degrees are used ``TURNED_TIMES`` times per epoch."""


@dataclass(frozen=True, eq=False)
class StoredFaces:
    """Some rows of several stores.

    Attributes:
        store: Index of each face's store, ``(N,)``.
        row: Row of each face in its store, ``(N,)``.
        people: ``collection/person``, empty if unknown, ``(N,)``.
        files: ``store/path`` of each photo, ``(N,)``.
        yaw: Yaw in degrees, ``(N,)``.
    """

    stores: tuple[FaceStore, ...]
    store: np.ndarray
    row: np.ndarray
    people: np.ndarray
    files: np.ndarray
    yaw: np.ndarray

    def __len__(self) -> int:
        return len(self.row)

    @classmethod
    def open(cls, folders: Sequence[Path]) -> StoredFaces:
        """All faces of prepared stores.

        Raises:
            FaceError: A folder has no prepared faces.
        """
        stores = tuple(FaceStore.open(folder) for folder in folders)
        return cls(
            stores,
            np.concatenate([np.full(len(store), number) for number, store in enumerate(stores)]),
            np.concatenate([np.arange(len(store)) for store in stores]),
            np.concatenate([store.people for store in stores]),
            np.array([f"{store.name}/{path}" for store in stores for path in store.paths]),
            np.concatenate([store.yaw for store in stores]),
        )

    def take(self, rows: np.ndarray) -> StoredFaces:
        columns = (self.store, self.row, self.people, self.files, self.yaw)
        return StoredFaces(self.stores, *(column[rows] for column in columns))

    def crops(self, rows: np.ndarray) -> np.ndarray:
        """uint8 ``(len(rows), 112, 112, 3)``."""
        return np.stack([self.stores[self.store[row]].crop(self.row[row]) for row in rows])

    def vectors(self, rows: np.ndarray) -> np.ndarray:
        """The teachers' concatenated vectors, float32 ``(len(rows), D)``."""
        found = [self.stores[self.store[row]].vector(self.row[row]) for row in rows]
        return np.stack(found).astype(np.float32)

    def order(self, seed: int, epoch: int) -> np.ndarray:
        """All rows in random order; turned faces appear several times."""
        times = np.where(np.abs(self.yaw) >= TURNED, TURNED_TIMES, 1)
        rows = np.repeat(np.arange(len(self)), times)
        return np.random.default_rng((seed, epoch)).permutation(rows)


def split(faces: StoredFaces, left_out: frozenset[str]) -> tuple[StoredFaces, StoredFaces]:
    """``(training, held_out)``; no person or family is in both.

    Args:
        left_out: People, or photos as in ``files``, to exclude from both.
    """
    wanted = ~np.isin(faces.people, list(left_out)) & ~np.isin(faces.files, list(left_out))
    groups = ["/".join(name.split("/")[:2]) for name in faces.people]
    back = np.array([bool(group) and held_out(group) for group in groups], bool)
    return faces.take(np.flatnonzero(wanted & ~back)), faces.take(np.flatnonzero(wanted & back))
