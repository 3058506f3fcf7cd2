"""What the student should say of a face: the teachers' vectors side by side, in fewer dimensions.

The cosine of two side-by-side vectors is the mean of the teachers' cosines. Their principal
directions, not centred, keep inner products as well as any map to so few dimensions can.
"""

from __future__ import annotations

import numpy as np


def principal_map(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Orthonormal columns ``(D, dim)`` that keep most of the vectors' inner products.

    Args:
        vectors: ``(N, D)``, some ten thousand of them.
        dim: Dimensions to keep, at most D.
    """
    moments = vectors.astype(np.float64).T @ vectors.astype(np.float64)
    _, directions = np.linalg.eigh(moments)
    return directions[:, ::-1][:, :dim].astype(np.float32)


def targets(vectors: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Unit targets ``(N, dim)`` of side-by-side vectors ``(N, D)``."""
    found = vectors.astype(np.float32) @ onto
    return found / np.linalg.norm(found, axis=1, keepdims=True)
