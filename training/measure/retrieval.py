"""Recall at K by exact nearest-neighbour search."""

from __future__ import annotations

from dataclasses import dataclass

import faiss
import numpy as np

KS = (1, 2, 4, 8)
QUERY_CHUNK = 1024


@dataclass(frozen=True, eq=False)
class Recall:
    """Whether one of each query's K nearest others has the query's label.

    Attributes:
        hits: bool ``(Q, len(ks))``.
        queries: Rows that have another picture of their class, int64 ``(Q,)``.
        neighbours: int64 ``(N, max(ks))``, nearest first, never the row itself.
    """

    ks: tuple[int, ...]
    hits: np.ndarray
    queries: np.ndarray
    neighbours: np.ndarray

    @property
    def values(self) -> dict[int, float]:
        """Share of queries with a hit, by K; NaN without queries."""
        means = self.hits.mean(0) if len(self.hits) else np.full(len(self.ks), np.nan)
        return dict(zip(self.ks, map(float, means), strict=True))


def recall(embeddings: np.ndarray, labels: np.ndarray, ks: tuple[int, ...] = KS) -> Recall:
    """Exact R@K of unit vectors ``(N, D)``; each query is left out of its own gallery."""
    vectors = np.ascontiguousarray(embeddings, np.float32)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    most = min(max(ks), len(vectors) - 1)
    neighbours = np.empty((len(vectors), most), np.int64)
    for start in range(0, len(vectors), QUERY_CHUNK):
        _, found = index.search(vectors[start : start + QUERY_CHUNK], most + 1)
        rows = np.arange(start, start + len(found))[:, None]
        # With identical vectors the row itself may not come first, or may be missing: drop it
        # wherever it is, or else the last neighbour.
        other = found != rows
        other[other.all(1), -1] = False
        neighbours[start : start + len(found)] = found[other].reshape(len(found), most)
    counts = np.bincount(labels, minlength=int(labels.max()) + 1)
    queries = np.flatnonzero(counts[labels] > 1)
    right = labels[neighbours[queries]] == labels[queries, None]
    hits = np.stack([right[:, : min(k, most)].any(1) for k in ks], axis=1)
    return Recall(tuple(ks), hits, queries, neighbours)
