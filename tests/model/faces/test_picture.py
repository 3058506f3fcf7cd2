"""Large JPEGs are decoded only as finely as needed, and give the same faces as whole ones."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from model.bundle import Bundle
from model.embedding.embedder import Embedder
from model.errors import BadImage, ImageTooLarge
from model.faces.align import FINER, align
from model.faces.detect import Detector, main_face
from model.faces.image import load_image, open_image
from model.faces.picture import Picture
from tests import samples
from tests.model.faces.test_image import UPRIGHT_TO_STORED
from tests.model.helpers import encoded

WHOLE = (3200, 3750)
"""Width and height of 12 megapixels."""


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


@pytest.fixture(scope="module")
def embedder() -> Embedder:
    return Embedder(Bundle.load(), engine="onnxruntime", device="cpu")


def enlarged(size: tuple[int, int] = WHOLE) -> Image.Image:
    return Image.fromarray(samples.hopper()).resize(size, Image.Resampling.BICUBIC)


def beside(side: int) -> Image.Image:
    """A photo of 12 megapixels with the sample photo ``side`` pixels high in a corner."""
    canvas = Image.new("RGB", WHOLE, (90, 110, 120))
    canvas.paste(enlarged((side * 512 // 600, side)), (300, 400))
    return canvas


def agreement(
    detector: Detector, embedder: Embedder, data: bytes, picture: Picture
) -> tuple[float, float]:
    """Cosine to the vector of the whole photo, and the landmarks' largest error in eye distances.

    The whole photo is decoded by Pillow alone, searched and cut as an array.
    """
    whole = load_image(data)
    faces = [main_face(detector.detect(each), each.shape) for each in (whole, picture)]
    crops = [
        align(each, face.landmarks) for each, face in zip((whole, picture), faces, strict=True)
    ]
    one, other = embedder.embed(crops)
    eyes = np.linalg.norm(faces[0].landmarks[1] - faces[0].landmarks[0])
    error = np.abs(faces[0].landmarks - faces[1].landmarks).max()
    return float(one @ other), float(error / eyes)


@pytest.mark.parametrize("options", [{}, {"progressive": True}, {"subsampling": 0}])
def test_a_large_face_has_the_same_vector_from_a_coarse_copy(
    detector: Detector, embedder: Embedder, options: dict[str, object]
) -> None:
    data = encoded(enlarged(), "JPEG", quality=90, **options)
    picture = open_image(data)
    cosine, error = agreement(detector, embedder, data, picture)
    assert picture.shape == (3750, 3200, 3)
    assert max(picture.pixels(0).shape) == 938
    assert cosine > 0.998
    assert error < 0.02


@pytest.mark.parametrize("mode", ["CMYK", "L"])
def test_other_colours_are_decoded_coarsely_too(
    detector: Detector, embedder: Embedder, mode: str
) -> None:
    data = encoded(enlarged().convert(mode), "JPEG", quality=90)
    picture = open_image(data)
    whole = load_image(data)
    expected = np.asarray(Image.fromarray(whole).resize((800, 938), Image.Resampling.BOX))
    assert np.abs(picture.pixels(0).astype(int) - expected).mean() < 1.5
    assert agreement(detector, embedder, data, picture)[0] > 0.998


@pytest.mark.parametrize("orientation", UPRIGHT_TO_STORED)
def test_a_coarse_copy_is_turned_upright(
    detector: Detector, embedder: Embedder, orientation: int
) -> None:
    """The sides are no multiples of the reduction."""
    upright = np.asarray(enlarged((1845, 2163)))
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = np.ascontiguousarray(UPRIGHT_TO_STORED[orientation](upright))
    data = encoded(Image.fromarray(stored), "JPEG", quality=90, exif=exif)
    picture = open_image(data)
    assert picture.shape == upright.shape
    assert picture.pixels(0).shape == (1082, 923, 3)
    cosine, error = agreement(detector, embedder, data, picture)
    assert cosine > 0.998
    assert error < 0.02


@pytest.mark.parametrize("side", [2000, 1000, 500, 250])
def test_a_small_face_is_cut_from_enough_pixels(
    detector: Detector, embedder: Embedder, side: int
) -> None:
    data = encoded(beside(side), "JPEG", quality=90)
    picture = open_image(data)
    assert agreement(detector, embedder, data, picture)[0] > 0.998
    face = main_face(detector.detect(picture), picture.shape)
    copy = picture.pixels(0)
    eyes = (face.landmarks[1] - face.landmarks[0]) / picture.ratio(copy)
    crop_eyes = 35.2
    assert copy.shape == picture.shape or np.linalg.norm(eyes) > 0.95 * FINER * crop_eyes


def test_photos_of_calibrations_are_decoded_whole() -> None:
    data = encoded(enlarged((1500, 1799)), "JPEG", quality=90)
    np.testing.assert_array_equal(open_image(data).pixels(0), load_image(data))


def test_a_finer_copy_is_decoded_when_asked_for() -> None:
    data = encoded(enlarged(), "JPEG", quality=90)
    picture = open_image(data)
    sides = [max(picture.pixels(side).shape) for side in (900, 938, 939, 500, 1876)]
    assert sides == [938, 938, 1875, 1875, 3750]
    np.testing.assert_array_equal(picture.pixels(), load_image(data))


def test_other_formats_are_decoded_whole() -> None:
    data = encoded(enlarged((1845, 2163)), "PNG", compress_level=1)
    np.testing.assert_array_equal(open_image(data).pixels(0), load_image(data))


def test_limits_and_damage_are_named_as_for_whole_photos() -> None:
    data = encoded(enlarged(), "JPEG", quality=90)
    for refused, limits in (
        (ImageTooLarge, {"max_pixels": 11_000_000}),
        (ImageTooLarge, {"max_bytes": len(data) - 1}),
    ):
        messages = []
        for read in (load_image, open_image):
            with pytest.raises(refused) as caught:
                read(data, **limits)
            messages.append(caught.value.message)
        assert messages[0] == messages[1]
    for cut in (100, len(data) // 2, len(data) - 2000):
        for read in (load_image, open_image):
            with pytest.raises(BadImage):
                read(data[:cut])
