"""The interface of every vector index.

An index holds one vector per photo number and finds the nearest photos of a query. It is a cache
of the gallery: it can always be rebuilt, and it stores the :class:`Mark` of the last gallery
change it includes.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import numpy as np

from index.types import Mark, Vectors
from model.errors import IndexUnavailable


@dataclass(frozen=True)
class IndexStats:
    """Type and size of an index.

    Attributes:
        engine: ``faiss`` or ``milvus``.
        kind: Search method, for example ``exact`` or ``rabitq``.
        memory_bytes: Bytes that the vectors take in this process; 0 if they are on a server.
    """

    engine: str
    kind: str
    count: int
    dimension: int
    memory_bytes: int
    details: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


class VectorIndex(Protocol):
    """One vector per photo, searched by inner product of unit vectors (cosine).

    Thread-safe.

    Attributes:
        shared: Whether programs with other galleries can access the same vectors. A shared index
            is emptied only on request; others are rebuilt whenever they do not match the gallery.
    """

    shared: bool

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def mark(self) -> Mark | None:
        """The last gallery change included, or None for a new index."""

    def add(self, ids: np.ndarray, vectors: np.ndarray, people: Sequence[str]) -> None:
        """Adds vectors; replaces those with the same id.

        Args:
            ids: int64 array ``(n,)`` of unique photo numbers.
            vectors: float16 or float32 array ``(n, D)`` of unit vectors.
            people: Person ids, one per photo.
        """

    def remove(self, ids: np.ndarray) -> int:
        """Removes the ids that exist; returns their number."""

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Finds the ``k`` nearest photos of each query, best first.

        Args:
            queries: float32 array ``(q, D)`` of unit vectors.
            k: Number of results per query.

        Returns:
            Scores, float32 ``(q, k)``, and ids, int64 ``(q, k)``. With fewer than ``k`` photos,
            the rest has score ``-inf`` and id ``-1``.
        """

    def __len__(self) -> int:
        """Number of vectors."""

    def ids(self) -> np.ndarray:
        """All ids, int64, ascending."""

    def rebuild(self, chunks: Iterable[Vectors], mark: Mark) -> None:
        """Replaces the whole content, even of another gallery; ``mark`` is its last change."""

    def advance(self, mark: Mark) -> None:
        """Records that all changes up to ``mark`` are included.

        Raises:
            IndexUnavailable: If the index is shared and now belongs to another gallery.
        """

    def stats(self) -> IndexStats:
        """Type and size of the index."""

    def close(self) -> None:
        """Stops background work and closes connections."""


def foreign_index() -> IndexUnavailable:
    """The error for a shared index that belongs to another gallery."""
    return IndexUnavailable(
        "The collection holds the people of another gallery. Name another collection for this "
        "one; `python -m index rebuild` would take it over, once somebody is enrolled here."
    )


def check_rows(dimension: int, ids: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Checks the arguments of :meth:`VectorIndex.add`; returns the ids as int64.

    Raises:
        ValueError: If shapes do not match, or an id is negative or repeated.
    """
    ids = np.asarray(ids, np.int64).reshape(-1)
    if vectors.shape != (len(ids), dimension):
        raise ValueError(
            f"vectors must have the shape ({len(ids)}, {dimension}), got {vectors.shape}"
        )
    if len(ids) and (ids.min() < 0 or len(np.unique(ids)) != len(ids)):
        raise ValueError("ids must not be negative and must not repeat")
    return ids


def check_queries(dimension: int, queries: np.ndarray, k: int) -> np.ndarray:
    """Checks the arguments of :meth:`VectorIndex.search`; returns contiguous float32 queries.

    Raises:
        ValueError: If the shape is wrong or ``k`` is not positive.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise ValueError(f"queries must have the shape (q, {dimension}), got {queries.shape}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return queries
