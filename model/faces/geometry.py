"""The similarity transform between two sets of points."""

from __future__ import annotations

import numpy as np


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Fit the rotation, uniform scale and shift that map ``source`` closest to ``target``.

    In the plane the least-squares solution (Umeyama 1991) has a closed form. With points as
    complex numbers it is the linear regression ``target = a * source + b``.

    Args:
        source: ``(N, 2)`` points, not all the same.
        target: ``(N, 2)`` points.

    Returns:
        float64 array ``(2, 3)``: ``target ~ matrix[:, :2] @ source + matrix[:, 2]``.

    Raises:
        ValueError: The points are not ``(N, 2)`` and finite, or all coincide.
    """
    source = np.asarray(source, dtype=np.float64)
    target = np.asarray(target, dtype=np.float64)
    if source.shape != target.shape or source.ndim != 2 or source.shape[1] != 2:
        raise ValueError(f"Points must be two (N, 2) arrays, not {source.shape}, {target.shape}.")
    if not (np.isfinite(source).all() and np.isfinite(target).all()):
        raise ValueError("Points must be finite numbers.")
    z = source @ (1, 1j)
    w = target @ (1, 1j)
    z_mean, w_mean = z.mean(), w.mean()
    spread = np.vdot(z - z_mean, z - z_mean).real
    if spread <= 1e-12:
        raise ValueError("All source points coincide; no similarity is defined.")
    a = np.vdot(z - z_mean, w - w_mean) / spread
    b = w_mean - a * z_mean
    return np.array([[a.real, -a.imag, b.real], [a.imag, a.real, b.imag]])
