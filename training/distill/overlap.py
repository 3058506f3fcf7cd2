"""Find the people of one collection who are also in another, by their vectors."""

from __future__ import annotations

import numpy as np

BLOCK = 2048


def overlapping(
    vectors: np.ndarray, names: np.ndarray, others: np.ndarray, limit: float
) -> dict[str, float]:
    """Names whose normalised mean vector has a similarity of at least ``limit`` to any other.

    Args:
        vectors: Unit vectors ``(N, D)``.
        names: The person, or the single face, each vector belongs to, ``(N,)``.
        others: Unit vectors ``(M, D)`` of the benchmark.
        limit: Lowest cosine similarity that counts as the same person.

    Returns:
        The names found, each with its highest similarity.
    """
    unique, member = np.unique(names, return_inverse=True)
    centres = np.zeros((len(unique), vectors.shape[1]), np.float64)
    np.add.at(centres, member, vectors)
    centres /= np.linalg.norm(centres, axis=1, keepdims=True)
    best = np.concatenate(
        [
            (centres[start : start + BLOCK] @ others.T).max(1)
            for start in range(0, len(centres), BLOCK)
        ]
    )
    return {str(unique[row]): float(best[row]) for row in np.flatnonzero(best >= limit)}
