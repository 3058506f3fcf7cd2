"""Warp a picture by a similarity transform, without aliasing.

Coordinates are continuous: pixel ``i`` covers ``[i, i + 1)``. The detector's landmarks and Pillow
use the same convention, and it makes a crop independent of the photo's resolution.
"""

from __future__ import annotations

import math

import numpy as np
from PIL import Image


def warp(image: np.ndarray, to_crop: np.ndarray, size: int) -> np.ndarray:
    """Warp a picture to a square crop; areas outside the picture are black.

    Args:
        image: uint8 array ``(H, W, 3)``.
        to_crop: float64 array ``(2, 3)`` that maps points of the picture to points of the crop.
        size: Side of the crop in pixels.

    Returns:
        uint8 array ``(size, size, 3)``.
    """
    linear = np.linalg.inv(to_crop[:, :2])
    shift = -linear @ to_crop[:, 2]

    # Shrinking aliases unless every source pixel contributes. An integer box reduction leaves two
    # to four pixels per crop pixel. The warp then samples a grid at least as fine as those pixels,
    # and the grid is averaged down to the crop.
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
