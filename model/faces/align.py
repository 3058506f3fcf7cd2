"""Align a face: from five landmarks to the crop that every embedding network takes."""

from __future__ import annotations

import math

import numpy as np

from model.faces.geometry import similarity
from model.faces.picture import Picture
from model.faces.warp import warp
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
"""The ArcFace template, ``(5, 2)``: positions of the landmarks of ``Face`` in a 112x112 crop."""

TEMPLATE.flags.writeable = False

FINER = 1.5
"""A crop is made from the whole photo, or from a copy with this many pixels for each of its own."""


def align(image: np.ndarray | Picture, landmarks: np.ndarray, size: int = CROP_SIZE) -> np.ndarray:
    """Crop a face so that its landmarks lie on ``TEMPLATE``.

    Parts of the crop outside the photo are black.

    Args:
        image: The picture, or its uint8 array ``(H, W, 3)``. A picture is decoded as finely as
            the crop needs.
        landmarks: ``(5, 2)`` in pixels of ``image``, in the order of ``Face.landmarks``.
        size: Side of the crop in pixels; the template is scaled with it.

    Returns:
        uint8 array ``(size, size, 3)``.

    Raises:
        ValueError: An argument has the wrong shape or type, or the landmarks coincide.
    """
    if size < 1:
        raise ValueError(f"size must be at least 1, not {size}.")
    picture = image if isinstance(image, Picture) else Picture(image)
    to_crop = similarity(landmarks, TEMPLATE * (size / CROP_SIZE))
    shrink = math.sqrt(abs(np.linalg.det(to_crop[:, :2])))
    pixels = picture.pixels(FINER * shrink * max(picture.shape))
    to_crop[:, :2] *= picture.ratio(pixels)
    return warp(pixels, to_crop, size)
