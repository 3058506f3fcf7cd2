"""Angles recovered from a head turned by known ones."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.faces.pose import _HEAD, pose


def seen(yaw: float, pitch: float, roll: float, *, scale: float = 2.0) -> np.ndarray:
    """Landmarks of the average head after turning it: tilted, then turned, then leaned."""
    y, p, r = (math.radians(angle) for angle in (yaw, pitch, roll))
    turn = np.array([[math.cos(y), 0, math.sin(y)], [0, 1, 0], [-math.sin(y), 0, math.cos(y)]])
    tilt = np.array([[1, 0, 0], [0, math.cos(p), -math.sin(p)], [0, math.sin(p), math.cos(p)]])
    lean = np.array([[math.cos(r), -math.sin(r), 0], [math.sin(r), math.cos(r), 0], [0, 0, 1]])
    return (_HEAD @ (lean @ turn @ tilt).T)[:, :2] * scale + (120, 90)


@settings(deadline=None, max_examples=100)
@given(
    yaw=st.floats(-70, 70),
    pitch=st.floats(-60, 60),
    roll=st.floats(-170, 170),
    scale=st.floats(0.1, 50),
)
def test_known_angles_are_recovered(yaw: float, pitch: float, roll: float, scale: float) -> None:
    np.testing.assert_allclose(
        pose(seen(yaw, pitch, roll, scale=scale)), (yaw, pitch, roll), atol=1e-5
    )


def test_signs_are_those_of_the_documentation() -> None:
    landmarks = seen(0, 0, 0)
    to_the_right, up, clockwise = landmarks.copy(), landmarks.copy(), landmarks.copy()
    to_the_right[2, 0] += 10
    up[2, 1] -= 10
    clockwise[1, 1] += 10
    assert pose(to_the_right).yaw > 5
    assert pose(up).pitch > 5
    assert pose(clockwise).roll > 1


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_mirrored_face_turns_the_other_way(seed: int) -> None:
    noise = np.random.default_rng(seed).normal(scale=3, size=(5, 2))
    landmarks = seen(10, 5, 3) + noise
    yaw, pitch, roll = pose(landmarks)
    mirrored = pose((landmarks * (-1, 1))[[1, 0, 2, 4, 3]])
    np.testing.assert_allclose(mirrored, (-yaw, pitch, -roll), atol=1e-6)


@pytest.mark.parametrize("wrong", [np.zeros((5, 2)), np.zeros((4, 2)), np.full((5, 2), np.inf)])
def test_impossible_landmarks_are_value_errors(wrong: np.ndarray) -> None:
    with pytest.raises(ValueError, match="andmarks"):
        pose(wrong)
