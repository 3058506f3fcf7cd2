"""Who of one collection is in another as well, by their vectors."""

from __future__ import annotations

import numpy as np

BLOCK = 2048


def overlapping(
    vectors: np.ndarray, names: np.ndarray, others: np.ndarray, limit: float
) -> dict[str, float]:
    """Names whose mean unit vector comes as close as ``limit`` to any of ``others``.

    Args:
        vectors: Unit vectors ``(N, D)``.
        names: Per vector, the person (or the loose face) it belongs to.
        others: Unit vectors ``(M, D)`` of the benchmark.
        limit: Cosine similarity from which on two are taken for one person.

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
