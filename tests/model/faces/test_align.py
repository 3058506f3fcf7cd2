"""The warp: exact where a closed form is known, still where the face moves."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model.faces.align import TEMPLATE, align, similarity
from tests import samples

QUICK = settings(deadline=None, max_examples=40)


def turn(angle: float, scale: float, shift: tuple[float, float]) -> np.ndarray:
    c, s = scale * math.cos(angle), scale * math.sin(angle)
    return np.array([[c, -s, shift[0]], [s, c, shift[1]]])


def move(points: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    return points @ matrix[:, :2].T + matrix[:, 2]


def pattern(landmarks: np.ndarray, size: int) -> np.ndarray:
    """A grey picture with a soft bright blob on each landmark, drawn analytically."""
    eyes = np.linalg.norm(landmarks[1] - landmarks[0])
    yy, xx = np.mgrid[0:size, 0:size] + 0.5
    total = np.full((size, size), 40.0)
    for x, y in landmarks:
        total += 180 * np.exp(-((xx - x) ** 2 + (yy - y) ** 2) / (2 * (0.08 * eyes) ** 2))
    return np.repeat(np.clip(total, 0, 255).astype(np.uint8)[:, :, None], 3, axis=2)


def blob_centres(crop: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Centre of mass of the light around each expected position."""
    yy, xx = np.mgrid[0 : crop.shape[0], 0 : crop.shape[1]] + 0.5
    centres = []
    for x, y in expected:
        near = np.hypot(xx - x, yy - y) < 8
        weight = np.clip(crop[:, :, 0].astype(float) - 45, 0, None) * near
        centres.append([(xx * weight).sum() / weight.sum(), (yy * weight).sum() / weight.sum()])
    return np.array(centres)


def registration(a: np.ndarray, b: np.ndarray) -> float:
    """How far in pixels ``b`` has moved against ``a``: the peak of their phase correlation."""
    window = np.outer(np.hanning(112), np.hanning(112))
    grey = [(p.astype(float).mean(axis=2) - p.mean()) * window for p in (a, b)]
    cross = np.conj(np.fft.fft2(grey[0])) * np.fft.fft2(grey[1])
    surface = np.fft.fftshift(np.fft.ifft2(cross).real)
    row, column = np.unravel_index(surface.argmax(), surface.shape)

    def vertex(before: float, at: float, after: float) -> float:
        return 0.5 * (before - after) / (before - 2 * at + after)

    dy = row - 56 + vertex(*surface[row - 1 : row + 2, column])
    dx = column - 56 + vertex(*surface[row, column - 1 : column + 2])
    return float(np.hypot(dx, dy))


@QUICK
@given(
    angle=st.floats(-math.pi, math.pi),
    scale=st.floats(0.01, 100),
    shift=st.tuples(st.floats(-5000, 5000), st.floats(-5000, 5000)),
)
def test_similarity_recovers_a_known_one(
    angle: float, scale: float, shift: tuple[float, float]
) -> None:
    matrix = turn(angle, scale, shift)
    np.testing.assert_allclose(similarity(TEMPLATE, move(TEMPLATE, matrix)), matrix, atol=1e-7)


@QUICK
@given(seed=st.integers(0, 2**32 - 1))
def test_similarity_is_the_least_squares_solution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source, target = rng.normal(size=(2, 5, 2))
    rows = []
    for x, y in source:
        rows += [[x, -y, 1, 0], [y, x, 0, 1]]
    a, b, tx, ty = np.linalg.lstsq(np.array(rows), target.ravel(), rcond=None)[0]
    np.testing.assert_allclose(similarity(source, target), [[a, -b, tx], [b, a, ty]], atol=1e-8)


def test_similarity_never_mirrors() -> None:
    mirrored = TEMPLATE * (-1, 1)
    assert np.linalg.det(similarity(mirrored, TEMPLATE)[:, :2]) > 0


def test_a_picture_already_aligned_comes_back_unchanged() -> None:
    crop = np.random.default_rng(1).integers(0, 256, (112, 112, 3), dtype=np.uint8)
    np.testing.assert_array_equal(align(crop, TEMPLATE), crop)


def test_agrees_with_an_independent_warp() -> None:
    from skimage.transform import SimilarityTransform, warp

    image = samples.hopper()
    landmarks = move(TEMPLATE, turn(0.2, 0.9, (180, 130)))
    transform = SimilarityTransform.from_estimate(landmarks - 0.5, TEMPLATE - 0.5)
    expected = warp(image, transform.inverse, output_shape=(112, 112), order=3) * 255
    apart = np.abs(align(image, landmarks) - expected).mean()
    half_a_pixel_off = np.abs(align(image, landmarks + 0.5) - expected).mean()
    assert apart < 2
    assert half_a_pixel_off > 2 * apart


@QUICK
@given(
    angle=st.floats(-math.pi, math.pi),
    eyes=st.floats(20, 160),
    dx=st.floats(-3, 3),
    dy=st.floats(-3, 3),
)
def test_landmarks_land_on_the_template(angle: float, eyes: float, dx: float, dy: float) -> None:
    centred = TEMPLATE - TEMPLATE.mean(axis=0)
    landmarks = move(centred, turn(angle, eyes / 35.24, (300 + dx, 300 + dy)))
    crop = align(pattern(landmarks, 600), landmarks)
    assert np.abs(blob_centres(crop, TEMPLATE) - TEMPLATE).max() < 0.25


@settings(deadline=None, max_examples=20)
@given(
    angle=st.floats(-180, 180),
    scale=st.floats(0.6, 3),
    dx=st.floats(-40, 40),
    dy=st.floats(-40, 40),
)
def test_a_moved_photo_gives_the_same_crop(
    angle: float, scale: float, dx: float, dy: float
) -> None:
    """Rotate, scale and shift a real photo with Pillow: the crop moves by less than a pixel."""
    image = samples.hopper()
    landmarks = move(TEMPLATE, turn(0.0, 1.7, (165, 95)))
    matrix = turn(math.radians(angle), scale, (0, 0))
    middle = np.array([256.0, 200.0])
    size = int(700 * scale) + 100
    matrix[:, 2] = np.array([size / 2 + dx, size / 2 + dy]) - matrix[:, :2] @ middle
    back = np.linalg.inv(matrix[:, :2])
    offset = -back @ matrix[:, 2]
    picture = Image.fromarray(image)
    moved = picture.transform(
        (size, size),
        Image.Transform.AFFINE,
        (*back[0], offset[0], *back[1], offset[1]),
        resample=Image.Resampling.BICUBIC,
    )
    before = align(image, landmarks)
    after = align(np.asarray(moved), move(landmarks, matrix))
    assert registration(before, after) < 0.3
    assert np.abs(before.astype(int) - after).mean() < 6


def test_registration_sees_a_shift_of_one_pixel() -> None:
    """The instrument of the test above must not be blind."""
    image = samples.hopper()
    landmarks = move(TEMPLATE, turn(0.0, 1.7, (165, 95)))
    a, b = align(image, landmarks), align(image, landmarks + np.array([1.7, 0]))
    assert registration(a, b) == pytest.approx(1, abs=0.3)


@pytest.mark.parametrize("step", [1.5, 3, 7.3, 20])
def test_shrinking_does_not_alias(step: float) -> None:
    """A checkerboard finer than the crop's pixels must come out grey."""
    size = int(112 * step) + 40
    yy, xx = np.mgrid[0:size, 0:size]
    board = np.repeat((((yy + xx) % 2) * 255).astype(np.uint8)[:, :, None], 3, axis=2)
    crop = align(board, move(TEMPLATE, turn(0.3, step, (0.38 * size, 0))))
    inside = crop[40:72, 40:72].astype(float)
    assert inside.std() < 12
    assert abs(inside.mean() - 127.5) < 4


def test_parts_outside_the_photo_are_black() -> None:
    white = np.full((100, 100, 3), 255, np.uint8)
    crop = align(white, TEMPLATE - (56, 0))
    assert (crop[:98, 58:] == 255).all()
    assert (crop[:, :54] == 0).all()


def test_a_face_wholly_outside_gives_black_and_no_error() -> None:
    white = np.full((50, 60, 3), 255, np.uint8)
    for shift in ((-5000, 0), (5000, 5000), (0, -300)):
        assert not align(white, TEMPLATE + shift).any()


def test_size_scales_the_template() -> None:
    image = samples.hopper()
    landmarks = move(TEMPLATE, turn(0.1, 1.5, (180, 100)))
    half = Image.fromarray(align(image, landmarks, size=224)).reduce(2)
    assert np.abs(np.asarray(half).astype(int) - align(image, landmarks)).mean() < 3


def test_the_result_is_owned_contiguous_and_writable() -> None:
    crop = align(samples.hopper(), TEMPLATE + 200)
    assert crop.shape == (112, 112, 3)
    assert crop.dtype == np.uint8
    assert crop.flags.c_contiguous
    assert crop.flags.writeable


@pytest.mark.parametrize(
    ("landmarks", "says"),
    [
        (np.zeros((5, 2)), "coincide"),
        (np.full((5, 2), np.nan), "finite"),
        (np.zeros((4, 2)), "(N, 2)"),
    ],
)
def test_impossible_landmarks_are_value_errors(landmarks: np.ndarray, says: str) -> None:
    with pytest.raises(ValueError) as caught:
        align(samples.hopper(), landmarks)
    assert says in str(caught.value)


def test_other_pictures_are_value_errors() -> None:
    with pytest.raises(ValueError, match="uint8"):
        align(np.zeros((100, 100), np.uint8), TEMPLATE)
    with pytest.raises(ValueError, match="size"):
        align(np.zeros((100, 100, 3), np.uint8), TEMPLATE, size=0)
