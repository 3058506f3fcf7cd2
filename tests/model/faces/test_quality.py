"""Each reason appears when a good face is spoiled in that way, and only then."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageFilter

from model.faces.align import TEMPLATE, align
from model.faces.detect import Detector
from model.faces.quality import CHECKS, assess, costs, measure
from model.faces.quality import judge as judged
from model.types import Face, Quality
from tests import samples


@pytest.fixture(scope="module")
def portrait() -> tuple[np.ndarray, Face]:
    image = samples.hopper()
    return image, Detector().detect(image)[0]


def judge(image: np.ndarray, face: Face) -> Quality:
    return assess(image, face, align(image, face.landmarks))


def codes(quality: Quality) -> list[str]:
    return [reason.code for reason in quality.reasons]


def gain(image: np.ndarray, factor: float, lift: float = 0) -> np.ndarray:
    return np.clip(image * factor + lift, 0, 255).astype(np.uint8)


def blur(image: np.ndarray, radius: float) -> np.ndarray:
    return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(radius)))


def resize(image: np.ndarray, face: Face, scale: float) -> tuple[np.ndarray, Face]:
    height, width = (round(side * scale) for side in image.shape[:2])
    small = Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS)
    box = tuple(value * scale for value in face.box)
    return np.asarray(small), Face(box, face.landmarks * np.float32(scale), face.confidence)


def crop_left(image: np.ndarray, face: Face, columns: int) -> tuple[np.ndarray, Face]:
    left, top, right, bottom = face.box
    box = (left - columns, top, right - columns, bottom)
    landmarks = face.landmarks - np.array([columns, 0], np.float32)
    return np.ascontiguousarray(image[:, columns:]), Face(box, landmarks, face.confidence)


def nose_sideways(face: Face) -> Face:
    landmarks = face.landmarks.copy()
    landmarks[2, 0] = landmarks[1, 0]
    return Face(face.box, landmarks, face.confidence)


SPOILED: dict[str, Callable[[np.ndarray, Face], tuple[np.ndarray, Face]]] = {
    "too_small": lambda image, face: resize(image, face, 0.1),
    "blurred": lambda image, face: (blur(image, 6), face),
    "too_dark": lambda image, face: (gain(image, 0.2), face),
    "too_bright": lambda image, face: (gain(image, 1.6, 40), face),
    "turned_away": lambda image, face: (image, nose_sideways(face)),
    "cut_off": lambda image, face: crop_left(image, face, int(face.landmarks[0, 0])),
    "uncertain_face": lambda image, face: (image, Face(face.box, face.landmarks, 0.9)),
}


@pytest.mark.parametrize("sample", [samples.hopper, samples.collins])
def test_a_good_face_has_no_reasons(sample: Callable[[], np.ndarray]) -> None:
    image = sample()
    quality = judge(image, Detector().detect(image)[0])
    assert quality.reasons == ()
    assert quality.score >= 0.5


def test_every_reason_is_tested() -> None:
    assert set(SPOILED) == {check.code for check in CHECKS}


@pytest.mark.parametrize("code", SPOILED)
def test_spoiling_a_good_face_turns_its_reason_on(
    code: str, portrait: tuple[np.ndarray, Face]
) -> None:
    quality = judge(*SPOILED[code](*portrait))
    allowed = {code, "blurred"} if code == "too_small" else {code}
    assert code in codes(quality)
    assert set(codes(quality)) <= allowed
    [reason] = [reason for reason in quality.reasons if reason.code == code]
    [check] = [check for check in CHECKS if check.code == code]
    assert reason.value == quality.measures[check.measure]
    assert reason.limit == check.limit
    assert "{" not in reason.message
    assert reason.message.endswith(".")


def test_a_face_the_detector_sees_turned_is_turned_away(shared_data) -> None:
    """A real profile, not shifted landmarks."""
    name = "Franz_Muentefering/Franz_Muentefering_0003.jpg"
    picture = Image.open(shared_data / "lfw_home/lfw_funneled" / name).convert("RGB")
    image = np.asarray(picture)
    quality = judge(image, Detector().detect(image)[0])
    assert "turned_away" in codes(quality)


@pytest.mark.parametrize(
    ("measure_name", "spoil", "amounts"),
    [
        ("sharpness", blur, [1, 2, 3, 5, 8]),
        ("highlights", gain, [0.9, 0.7, 0.5, 0.3, 0.1]),
    ],
)
def test_more_of_it_measures_worse(
    measure_name: str, spoil: Callable, amounts: list[float], portrait: tuple[np.ndarray, Face]
) -> None:
    image, face = portrait
    values = [judge(spoil(image, amount), face).measures[measure_name] for amount in amounts]
    assert values == sorted(values, reverse=True)
    assert values[-1] < 0.7 * values[0]


def test_the_cut_off_part_is_not_taken_for_darkness_or_detail(
    portrait: tuple[np.ndarray, Face],
) -> None:
    before = judge(*portrait).measures
    after = judge(*SPOILED["cut_off"](*portrait)).measures
    assert 0.05 < after["outside"] < 0.6
    assert after["highlights"] == pytest.approx(before["highlights"], rel=0.15)
    assert after["sharpness"] == pytest.approx(before["sharpness"], rel=0.4)


def test_outside_is_the_share_of_the_face_beyond_the_edge() -> None:
    image = np.full((300, 300, 3), 128, np.uint8)
    face = Face((0, 0, 1, 1), (TEMPLATE - (56, 0)).astype(np.float32), 1.0)
    assert measure(image, face, align(image, face.landmarks))["outside"] == pytest.approx(0.5, 0.02)


def test_a_flat_picture_is_measured_without_error() -> None:
    for level in (0, 255):
        image = np.full((200, 200, 3), level, np.uint8)
        quality = judge(image, Face((40, 40, 150, 150), TEMPLATE.astype(np.float32) + 40, 0.1))
        assert "blurred" in codes(quality)
        assert np.isfinite(list(quality.measures.values())).all()


def test_a_face_wholly_outside_is_measured_without_error() -> None:
    image = np.full((50, 50, 3), 128, np.uint8)
    quality = judge(image, Face((900, 900, 990, 990), TEMPLATE.astype(np.float32) + 900, 1.0))
    assert quality.measures["outside"] == 1
    assert "cut_off" in codes(quality)


MEASURES = {check.measure: check.good for check in CHECKS}


@settings(deadline=None, max_examples=200)
@given(values=st.tuples(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3)), which=st.sampled_from(CHECKS))
def test_the_score_never_rises_as_a_measure_gets_worse(values, which) -> None:
    good_end, bad_end = sorted(values, reverse=which.good > which.limit)
    better, worse = (
        judged({**MEASURES, which.measure: value}).score for value in (good_end, bad_end)
    )
    assert 0 <= worse <= better <= 1


def test_a_flawless_face_scores_one() -> None:
    assert judged(dict(MEASURES)).score == 1


def test_costs_add_up_to_the_score() -> None:
    poor = {**MEASURES, "sharpness": 0.07, "confidence": 0.97}
    spent = costs(poor)
    assert judged(poor).score == pytest.approx(np.exp(-spent["sharpness"] - spent["confidence"]))
    assert spent["sharpness"] > 0
    assert spent["confidence"] > 0


def test_blur_is_worse_than_a_cut_forehead_or_a_small_picture() -> None:
    """What the pairs of LFW say, whatever the network: framing hardly matters, detail does."""
    framed, small, blurry = (
        judged({**MEASURES, **change}).score
        for change in ({"outside": 0.05}, {"eye_distance": 12.0}, {"sharpness": 0.05})
    )
    assert min(framed, small) > 0.5
    assert blurry < 0.4


def test_more_of_a_fault_than_was_ever_measured_costs_more() -> None:
    scores = [judged({**MEASURES, "outside": share}).score for share in (0.3, 0.6, 0.9)]
    assert scores == sorted(set(scores), reverse=True)


def test_reasons_come_costliest_first() -> None:
    quality = judged({**MEASURES, "outside": 0.2, "sharpness": 0.05, "highlights": 0.2})
    assert codes(quality)[0] == "blurred"
    assert set(codes(quality)) == {"blurred", "cut_off", "too_dark"}


def test_another_crop_size_is_a_value_error(portrait: tuple[np.ndarray, Face]) -> None:
    image, face = portrait
    with pytest.raises(ValueError, match="112"):
        measure(image, face, align(image, face.landmarks, size=64))
