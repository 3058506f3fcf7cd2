"""Target vectors of the student: the teachers' concatenated vectors in fewer dimensions.

The cosine of two concatenated vectors is the mean of the teachers' cosines. Uncentred PCA is the
linear map to a given number of dimensions that best preserves inner products.
"""

from __future__ import annotations

import numpy as np


def principal_map(vectors: np.ndarray, dim: int) -> np.ndarray:
    """Leading uncentred principal directions as orthonormal columns, ``(D, dim)``.

    Args:
        vectors: ``(N, D)``; tens of thousands are enough.
        dim: Dimensions to keep, at most D.
    """
    moments = vectors.astype(np.float64).T @ vectors.astype(np.float64)
    _, directions = np.linalg.eigh(moments)
    return directions[:, ::-1][:, :dim].astype(np.float32)


def targets(vectors: np.ndarray, onto: np.ndarray) -> np.ndarray:
    """Unit targets ``(N, dim)`` from concatenated vectors ``(N, D)``."""
    found = vectors.astype(np.float32) @ onto
    return found / np.linalg.norm(found, axis=1, keepdims=True)
