"""Each kind spoils a photo in its own way, by the same amount every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.faces.align import align
from model.faces.detect import Detector
from model.faces.quality import measure
from model.types import Face
from tests import samples
from training.inputs.crops import crop_photos
from training.inputs.photo_kinds import KINDS, close_box, close_up, shrunk_to, spoiled


@pytest.fixture(scope="module")
def portrait() -> tuple[np.ndarray, Face]:
    image = samples.hopper()
    return image, Detector().detect(image)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_is_the_same_every_time_and_another_for_another_photo(kind, portrait) -> None:
    one = spoiled(*portrait, kind, "a.jpg")
    assert one.dtype == np.uint8
    assert np.array_equal(one, spoiled(*portrait, kind, "a.jpg"))
    if kind in ("whole", "jpeg"):
        assert np.array_equal(one, spoiled(*portrait, kind, "b.jpg"))
    else:
        other = spoiled(*portrait, kind, "b.jpg")
        assert one.shape != other.shape or not np.array_equal(one, other)


def test_whole_changes_nothing(portrait) -> None:
    assert spoiled(*portrait, "whole", "a.jpg") is portrait[0]


def test_a_close_up_is_the_box_and_its_margin(portrait) -> None:
    image, face = portrait
    left, top, right, bottom = close_box(image, face, 0.1)
    assert close_up(image, face, 0.1).shape == (bottom - top, right - left, 3)
    assert (right - left) == pytest.approx(1.2 * (face.box[2] - face.box[0]), abs=2)


def test_a_small_photo_has_so_many_pixels_between_the_eyes(portrait) -> None:
    image, face = portrait
    small = shrunk_to(image, face, 15)
    scale = small.shape[0] / image.shape[0]
    assert scale * np.linalg.norm(face.landmarks[1] - face.landmarks[0]) == pytest.approx(15, 0.03)
    assert shrunk_to(image, face, 1e6).shape == image.shape


@pytest.mark.parametrize(
    ("kind", "name"), [("small", "eye_distance"), ("blurred", "sharpness"), ("dark", "highlights")]
)
def test_the_measure_of_a_fault_falls(kind, name, portrait) -> None:
    image, face = portrait
    poor = spoiled(image, face, kind, "a.jpg")
    found = Detector().detect(poor)[0]
    before = measure(image, face, align(image, face.landmarks))[name]
    assert measure(poor, found, align(poor, found.landmarks))[name] < 0.7 * before


def test_crops_of_copies_are_kept_apart_from_those_of_the_photos(tmp_path: Path) -> None:
    photo = tmp_path / "a.png"
    Image.fromarray(samples.hopper()).save(photo)
    plain = crop_photos([photo], cache=tmp_path)
    both = crop_photos([photo, photo], kinds=["whole", "blurred"], cache=tmp_path)
    assert plain.fingerprint != both.fingerprint
    assert np.array_equal(plain.pixels[0], both.pixels[0])
    sharp, blurry = both.measures["sharpness"]
    assert blurry < 0.7 * sharp
