"""Estimate head pose from five landmarks."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np


class Pose(NamedTuple):
    """Angles of a head in degrees; all zero when it faces the camera.

    Attributes:
        yaw: Positive when the nose points to the right of the picture.
        pitch: Positive when the nose points up.
        roll: Positive when the head leans clockwise in the picture.
    """

    yaw: float
    pitch: float
    roll: float


_HEAD = np.array(
    [
        [-17.9, 52.2, 0.0],
        [17.9, 52.2, 0.0],
        [0.0, 73.1, 17.9],
        [-15.4, 91.2, 3.6],
        [15.4, 91.2, 3.6],
    ]
)
"""3D landmarks of an average head, ``(5, 3)``: right, down, towards the camera.

The frontal coordinates are the median over 1,500 aligned photos of LFW, made symmetric. Depths are
those of an average adult: the nose tip lies half an eye distance in front of the eyes, the corners
of the mouth a tenth.
"""

_HEAD -= _HEAD.mean(axis=0)
_HEAD.flags.writeable = False


def pose(landmarks: np.ndarray) -> Pose:
    """Estimate yaw, pitch and roll.

    Fits an average head under scaled orthographic projection. Noses differ and five points are
    few, so the angles are accurate to about ten degrees.

    Args:
        landmarks: ``(5, 2)`` in pixels, in the order of ``Face.landmarks``.

    Raises:
        ValueError: The landmarks are not ``(5, 2)`` finite numbers, or all coincide.
    """
    points = np.asarray(landmarks, dtype=np.float64)
    if points.shape != (5, 2) or not np.isfinite(points).all():
        raise ValueError(f"landmarks must be finite and (5, 2), not {points.shape}.")
    camera = np.linalg.lstsq(_HEAD, points - points.mean(axis=0), rcond=None)[0].T
    basis, sizes, directions = np.linalg.svd(camera, full_matrices=False)
    if sizes[0] < 1e-9:
        raise ValueError("All landmarks coincide; no pose is defined.")
    across, down = basis @ directions
    towards = np.cross(across, down)
    roll = math.atan2(down[0], across[0])
    # Third column of the rotation: the direction of the nose (right, down, towards the camera).
    # The roll is removed, so that a leaning head does not count as a turned one.
    to_right = across[2] * math.cos(roll) + down[2] * math.sin(roll)
    to_bottom = down[2] * math.cos(roll) - across[2] * math.sin(roll)
    yaw = math.atan2(to_right, towards[2])
    pitch = -math.asin(min(1.0, max(-1.0, to_bottom)))
    return Pose(math.degrees(yaw), math.degrees(pitch), math.degrees(roll))
