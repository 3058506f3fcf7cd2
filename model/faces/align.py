"""The only warp: five landmarks -> the canonical crop every network is fed.

Coordinates are continuous: pixel ``i`` covers ``[i, i + 1)``. That is how the detector states
landmarks and how Pillow warps, and it makes the crop independent of the photo's resolution.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image

from model.types import CROP_SIZE

TEMPLATE = np.array(
    [
        [38.2946, 51.6963],
        [73.5318, 51.5014],
        [56.0252, 71.7366],
        [41.5493, 92.3655],
        [70.7299, 92.2041],
    ],
    dtype=np.float64,
)
"""Where the five landmarks of ``Face`` lie in a 112x112 crop (the ArcFace template), ``(5, 2)``."""

TEMPLATE.flags.writeable = False


def similarity(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Rotation, uniform scale and shift that bring ``source`` closest to ``target``.

    In the plane the least-squares solution (Umeyama 1991) has a closed form: written as
    complex numbers the points obey ``target = a * source + b``, a linear regression.

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


def align(image: np.ndarray, landmarks: np.ndarray, size: int = CROP_SIZE) -> np.ndarray:
    """Cut out a face so that its landmarks lie on ``TEMPLATE``.

    Parts of the crop outside the photo are black.

    Args:
        image: uint8 array ``(H, W, 3)``.
        landmarks: ``(5, 2)`` in pixels of ``image``, in the order of ``Face.landmarks``.
        size: Side of the crop in pixels; the template grows with it.

    Returns:
        uint8 array ``(size, size, 3)``.

    Raises:
        ValueError: An argument has the wrong shape or type, or the landmarks coincide.
    """
    if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
        raise ValueError(f"image must be uint8 (H, W, 3), not {image.dtype} {image.shape}.")
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}.")
    to_crop = similarity(landmarks, TEMPLATE * (size / CROP_SIZE))
    linear = np.linalg.inv(to_crop[:, :2])
    shift = -linear @ to_crop[:, 2]

    # Shrinking aliases unless every source pixel is averaged in. Whole-number box reduction
    # takes the photo to two to four pixels per crop pixel, then the warp samples a grid at
    # least as fine as those pixels, and that grid is averaged down to the crop.
    step = math.sqrt(abs(np.linalg.det(linear)))
    reduce_by = max(1, int(step / 2))
    corners = np.array([[0, 0], [size, 0], [0, size], [size, size]]) @ linear.T + shift
    margin = 4 * reduce_by
    height, width = image.shape[:2]
    left, top = np.clip(np.floor(corners.min(axis=0)) - margin, 0, (width - 1, height - 1))
    right, bottom = np.clip(
        np.ceil(corners.max(axis=0)) + margin, (left + 1, top + 1), (width, height)
    )
    left, top, right, bottom = int(left), int(top), int(right), int(bottom)
    region = Image.fromarray(image[top:bottom, left:right])
    if reduce_by > 1:
        region = region.reduce(reduce_by)

    oversample = max(1, math.ceil(step / reduce_by - 1e-6))
    linear = linear / (reduce_by * oversample)
    shift = (shift - (left, top)) / reduce_by
    (a, b), (d, e) = linear
    fine = region.transform(
        (size * oversample, size * oversample),
        Image.Transform.AFFINE,
        (a, b, shift[0], d, e, shift[1]),
        resample=Image.Resampling.BICUBIC,
    )
    if oversample > 1:
        fine = fine.reduce(oversample)
    return np.asarray(fine).copy()
