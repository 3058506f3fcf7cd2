"""The cascade: right at the edge, the same landmarks however a picture is framed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from facenet_pytorch import MTCNN
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model.faces.cascade import NETWORKS, Cascade, Find, _sample, _summed_area
from model.onnx_runtime import open_session
from tests import samples

TOLERANCE = 0.03
"""Of the face's size: how far framing may move a landmark."""


@pytest.fixture(scope="module")
def cascade() -> Cascade:
    return Cascade()


def size(find: Find) -> float:
    return float(np.sqrt(np.prod(find.box[2:] - find.box[:2])))


def nearest(found: list[Find], landmarks: np.ndarray) -> float:
    return min(float(np.linalg.norm(find.landmarks - landmarks, axis=1).max()) for find in found)


@pytest.mark.parametrize("name", ["pnet", "rnet", "onet"])
def test_the_graphs_are_facenet_pytorchs_networks(name: str) -> None:
    side = {"pnet": 40, "rnet": 24, "onet": 48}[name]
    pixels = np.random.default_rng(0).integers(0, 256, (2, 3, side, side)).astype(np.float32)
    ours = open_session(NETWORKS / f"{name}.onnx", threads=1).run(None, {"pixels": pixels})
    with torch.inference_mode():
        theirs = getattr(MTCNN(), name)((torch.from_numpy(pixels) - 127.5) * 0.0078125)
    for a, b in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(a, b.numpy(), atol=1e-4)


@pytest.mark.parametrize("photo", [samples.collins, samples.hopper])
def test_finds_what_plain_mtcnn_finds(cascade: Cascade, photo) -> None:
    image = photo()
    boxes, _, points = MTCNN(keep_all=True).detect(Image.fromarray(image), landmarks=True)
    found = cascade.find(image, 20)
    assert len(found) == len(boxes) == 1
    assert nearest(found, points[0].astype(float)) < 0.1 * size(found[0])


@given(st.tuples(*[st.floats(0, 0.4)] * 4), st.sampled_from([samples.collins, samples.hopper]))
@settings(deadline=None, max_examples=25)
def test_cutting_a_picture_does_not_move_the_landmarks(
    cascade: Cascade, margins: tuple[float, ...], photo
) -> None:
    image = photo()
    whole = cascade.find(image, 20)[0]
    side, (left, top, right, bottom) = size(whole), whole.box
    x0, y0 = int(max(0, left - margins[0] * side)), int(max(0, top - margins[1] * side))
    x1, y1 = int(right + margins[2] * side), int(bottom + margins[3] * side)
    found = cascade.find(np.ascontiguousarray(image[y0:y1, x0:x1]), 20)
    assert nearest(found, whole.landmarks - (x0, y0)) < TOLERANCE * side


@given(st.tuples(*[st.integers(0, 120)] * 4), st.integers(0, 255))
@settings(deadline=None, max_examples=15)
def test_padding_a_picture_does_not_move_the_landmarks(
    cascade: Cascade, pads: tuple[int, ...], grey: int
) -> None:
    image = samples.collins()
    whole = cascade.find(image, 20)[0]
    left, top, right, bottom = pads
    padded = np.pad(image, ((top, bottom), (left, right), (0, 0)), constant_values=grey)
    expected = whole.landmarks + np.array([left, top])
    assert nearest(cascade.find(padded, 20), expected) < TOLERANCE * size(whole)


def test_a_face_cut_in_half_by_the_edge_is_found_where_it_is(cascade: Cascade) -> None:
    image = samples.collins()
    whole = cascade.find(image, 20)[0]
    cut = int(whole.landmarks[:2, 1].mean() - 0.1 * size(whole))
    found = cascade.find(np.ascontiguousarray(image[cut:]), 20)
    assert nearest(found, whole.landmarks - (0, cut)) < 0.1 * size(whole)


def test_areas_are_exact_averages_and_black_beyond_the_edge() -> None:
    image = np.random.default_rng(1).integers(0, 256, (30, 40, 3), dtype=np.uint8)
    table = _summed_area(image)
    # Boxes follow MTCNN: they cover [left - 1, right] and [top - 1, bottom].
    inside = _sample(table, np.array([[5.0, 3.0, 28.0, 26.0]]), 12)[0]
    expected = image[2:26, 4:28].reshape(12, 2, 12, 2, 3).mean((1, 3)).transpose(2, 0, 1)
    np.testing.assert_allclose(inside, expected, atol=1e-3)
    outside = _sample(table, np.array([[-23.0, 1.0, 24.0, 24.0]]), 24)[0]
    assert (outside[:, :, :12] == 0).all()
    assert (outside[:, :, 12:] > 0).any()


def test_time_is_bounded_on_a_picture_full_of_faces(cascade: Cascade) -> None:
    tile = Image.fromarray(samples.hopper()).resize((40, 47), Image.Resampling.LANCZOS)
    sheet = np.tile(np.asarray(tile), (20, 25, 1))
    assert 1 < len(cascade.find(sheet, 20)) <= 200


def test_what_lies_on_a_known_face_is_not_looked_at_again(cascade: Cascade) -> None:
    picture = samples.collins()
    known = cascade.find(picture, 40)
    assert known
    assert cascade.find(picture, 20, known=known) == []
    [again] = cascade.find(picture, 40, known=known[1:])
    np.testing.assert_array_equal(again.landmarks, known[0].landmarks)
