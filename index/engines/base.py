"""The contract every vector index keeps, and how one is chosen.

An index holds one vector per photo under the photo's number and answers "which photos are
nearest". It is a cache of the gallery: everything in it can be rebuilt, and it carries the
:class:`Mark` of the last gallery change it includes.
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
    """What an index is and holds.

    Attributes:
        engine: ``faiss`` or ``milvus``.
        kind: How it searches, for example ``exact`` or ``rabitq``.
        count: Number of vectors.
        dimension: Length of a vector.
        memory_bytes: Memory the vectors take in this process; 0 when they are elsewhere.
        details: Engine-specific facts.
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
    """One vector per photo, found by inner product of unit vectors (cosine).

    All methods may be called from any thread.

    Attributes:
        shared: Whether programs with other galleries can reach the same vectors. Such an index
            is never emptied unasked; one of this process is rebuilt whenever it does not fit.
    """

    shared: bool

    @property
    def dimension(self) -> int:
        """Length of a vector."""

    @property
    def mark(self) -> Mark | None:
        """The last gallery change included, or None for an index that never saw one."""

    def add(self, ids: np.ndarray, vectors: np.ndarray, people: Sequence[str]) -> None:
        """Adds vectors, replacing those whose id is there already.

        Args:
            ids: int64 array ``(n,)`` of photo numbers, without repeats.
            vectors: float16 or float32 array ``(n, D)`` of unit vectors.
            people: Person ids, one per photo.
        """

    def remove(self, ids: np.ndarray) -> int:
        """Removes those of the ids that are there and returns how many were."""

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """The ``k`` nearest photos of each query, best first.

        Args:
            queries: float32 array ``(q, D)`` of unit vectors.
            k: How many per query.

        Returns:
            Scores, float32 ``(q, k)``, and ids, int64 ``(q, k)``. Where there are fewer than
            ``k`` photos the rest has score ``-inf`` and id ``-1``.
        """

    def __len__(self) -> int:
        """Number of vectors."""

    def ids(self) -> np.ndarray:
        """All ids, int64, ascending."""

    def rebuild(self, chunks: Iterable[Vectors], mark: Mark) -> None:
        """Replaces the whole content, whoever had it; ``mark`` is the change it stands for."""

    def advance(self, mark: Mark) -> None:
        """Notes that all changes up to ``mark`` are included.

        Raises:
            IndexUnavailable: If the index is shared and belongs to another gallery by now.
        """

    def stats(self) -> IndexStats:
        """What the index is and holds."""

    def close(self) -> None:
        """Ends background work and releases connections."""


def foreign_index() -> IndexUnavailable:
    """The error for a shared index that belongs to another gallery."""
    return IndexUnavailable(
        "The collection holds the people of another gallery. Name another collection for this "
        "one; `python -m index rebuild` would take it over, once somebody is enrolled here."
    )


def check_rows(dimension: int, ids: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    """Checks what :meth:`VectorIndex.add` was given; returns the ids as int64.

    Raises:
        ValueError: If shapes do not fit, or an id is negative or repeated.
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
    """Checks what :meth:`VectorIndex.search` was given; returns contiguous float32 queries.

    Raises:
        ValueError: If the shape does not fit or ``k`` is not positive.
    """
    queries = np.ascontiguousarray(queries, np.float32)
    if queries.ndim != 2 or queries.shape[1] != dimension:
        raise ValueError(f"queries must have the shape (q, {dimension}), got {queries.shape}")
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    return queries
