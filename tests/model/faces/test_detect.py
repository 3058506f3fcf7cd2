"""The detector's passes, turned pictures, and the choice policies."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from facenet_pytorch import MTCNN
from PIL import Image

from model.errors import NoFace, SeveralFaces
from model.faces.detect import Detector, candidates, choose
from model.types import Face
from tests import samples


@pytest.fixture(scope="module")
def detector() -> Detector:
    return Detector()


def face(left: float, top: float, size: float, certain: bool = True) -> Face:
    box = (left, top, left + size, top + size)
    return Face(box, np.zeros((5, 2), np.float32), 1.0, certain)


def test_landmarks_lie_where_a_person_sees_them(detector: Detector) -> None:
    [found] = detector.detect(samples.collins())
    seen = np.array([[203, 102], [248, 105], [225, 125], [204, 143], [239, 145]])
    assert np.abs(found.landmarks - seen).max() < 7
    assert found.landmarks.dtype == np.float32


@pytest.mark.parametrize("enlarge", [2, 5])
def test_coordinates_come_back_in_the_original_picture(detector: Detector, enlarge: int) -> None:
    small = samples.collins()
    large = np.asarray(
        Image.fromarray(small).resize((512 * enlarge,) * 2, Image.Resampling.BICUBIC)
    )
    [expected] = detector.detect(small)
    [found] = detector.detect(large)
    eyes = np.linalg.norm(expected.landmarks[1] - expected.landmarks[0])
    assert np.abs(found.landmarks / enlarge - expected.landmarks).max() < 0.06 * eyes


def test_a_small_face_is_found_in_the_second_pass(detector: Detector) -> None:
    tiny = Image.fromarray(samples.hopper()).resize((56, 66), Image.Resampling.LANCZOS)
    canvas = np.full((1400, 2000, 3), 128, np.uint8)
    canvas[700:766, 1500:1556] = np.asarray(tiny)
    [found] = detector.detect(canvas)
    left, top, right, bottom = found.box
    assert 1500 < left < right < 1556
    assert 700 < top < bottom < 766


def test_small_faces_are_found_beside_a_large_one_when_asked_for(detector: Detector) -> None:
    tiny = Image.fromarray(samples.hopper()).resize((42, 50), Image.Resampling.LANCZOS)
    canvas = np.full((1400, 2000, 3), 128, np.uint8)
    canvas[700:750, 1500:1542] = np.asarray(tiny)
    canvas[200:1224, 200:1224] = samples.collins().repeat(2, 0).repeat(2, 1)
    assert len(detector.detect(canvas)) == 1
    found = detector.detect(canvas, small_faces=True)
    assert len(found) == 2
    assert found[0].area > found[1].area


def test_no_face_in_noise_flat_or_tiny_pictures(detector: Detector) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (120, 160, 3), dtype=np.uint8)
    assert detector.detect(noise) == []
    for height, width in [(1, 1), (19, 400), (20, 20), (21, 3000), (64, 64)]:
        assert detector.detect(np.zeros((height, width, 3), np.uint8)) == []


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_picture_turned_on_its_side_gives_the_same_landmarks(
    detector: Detector, quarters: int
) -> None:
    image = samples.hopper()
    height, width = image.shape[:2]
    [upright] = detector.detect(image)
    [found] = detector.detect(np.ascontiguousarray(np.rot90(image, quarters)))
    x, y = found.landmarks.T
    back = {1: (width - y, x), 2: (width - x, height - y), 3: (y, height - x)}[quarters]
    moved = np.abs(np.column_stack(back) - upright.landmarks).max()
    assert moved < 0.03 * upright.area**0.5
    left, top, right, bottom = found.box
    assert left < x.min() < x.max() < right
    assert top < y.min() < y.max() < bottom


def test_threads_may_share_a_detector(detector: Detector) -> None:
    images = [samples.collins(), samples.hopper(), samples.pair()] * 3
    alone = [detector.detect(image) for image in images[:3]] * 3
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(detector.detect, images))
    for expected, found in zip(alone, together, strict=True):
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_array_equal(a.landmarks, b.landmarks)


def test_refuses_what_is_no_image(detector: Detector) -> None:
    for wrong in (np.zeros((50, 50), np.uint8), np.zeros((50, 50, 3), np.float32)):
        with pytest.raises(ValueError, match="uint8"):
            detector.detect(wrong)


def test_all_keeps_every_face_in_order() -> None:
    faces = [face(0, 0, 10), face(50, 50, 30)]
    assert choose(faces, "all", (100, 100)) == faces


def test_exactly_one_passes_one_and_refuses_two() -> None:
    only = face(0, 0, 10)
    assert choose([only], "exactly_one", (100, 100)) == [only]
    with pytest.raises(SeveralFaces, match="2 faces") as caught:
        choose([only, face(50, 50, 5)], "exactly_one", (100, 100))
    assert caught.value.details["count"] == 2
    assert caught.value.details["boxes"][1] == [50, 50, 55, 55]


def test_background_and_doubtful_finds_do_not_interrupt_a_portrait() -> None:
    main, background, doubtful = face(30, 30, 40), face(0, 0, 15), face(60, 60, 40, certain=False)
    assert candidates([main, background, doubtful], (100, 100)) == [main]
    assert choose([main, background, doubtful], "exactly_one", (100, 100)) == [main]
    rival = face(75, 30, 17)
    assert candidates([main, rival, doubtful], (100, 100)) == [main, rival]
    assert candidates([doubtful, background], (100, 100)) == [background]
    assert candidates([], (100, 100)) == []


@pytest.mark.parametrize(
    ("faces", "winner"),
    [
        pytest.param([face(40, 40, 20), face(45, 45, 10)], 0, id="same place: the larger"),
        pytest.param([face(0, 0, 20), face(40, 40, 20)], 1, id="same size: the more central"),
        pytest.param([face(0, 0, 22), face(40, 40, 20)], 1, id="a little larger does not win"),
        pytest.param([face(0, 0, 45), face(40, 40, 20)], 0, id="much larger does"),
    ],
)
def test_largest_central(faces: list[Face], winner: int) -> None:
    assert choose(faces, "largest_central", (100, 100, 3)) == [faces[winner]]
    assert choose(faces[::-1], "largest_central", (100, 100, 3)) == [faces[winner]]


@pytest.mark.parametrize("policy", ["largest_central", "all", "exactly_one"])
def test_no_face_is_an_error_under_every_policy(policy: str) -> None:
    with pytest.raises(NoFace):
        choose([], policy, (100, 100))


def test_an_unknown_policy_is_a_value_error() -> None:
    with pytest.raises(ValueError, match="best_of_all"):
        choose([face(0, 0, 10)], "best_of_all", (100, 100))


def test_finds_what_plain_mtcnn_finds_on_lfw(detector: Detector, shared_data) -> None:
    """The benchmark counts this on 500 photos; here are 12, so that a change is noticed early."""
    plain = MTCNN(keep_all=True)
    for path in sorted((shared_data / "lfw_home/lfw_funneled").glob("*/*_0001.jpg"))[::500]:
        picture = Image.open(path).convert("RGB")
        boxes, _ = plain.detect(picture)
        image = np.array(picture)
        main = candidates(detector.detect(image), image.shape)[0]
        centre = np.array(main.box).reshape(2, 2).mean(0)
        offsets = [np.abs(box.reshape(2, 2).mean(0) - centre).max() for box in boxes]
        assert min(offsets) < 0.2 * main.area**0.5


def test_a_face_too_small_for_the_first_pass_is_found_beside_a_known_one(
    detector: Detector,
) -> None:
    """The second look at the same copy adds to the first and leaves its faces as they are."""
    size = 150
    main, other = (
        Image.fromarray(photo).resize((side, side), Image.Resampling.BICUBIC)
        for photo, side in ((samples.collins(), 240), (samples.collins()[:256, 96:352], 60))
    )
    picture = Image.new("RGB", (240, 240 + size))
    picture.paste(main, (0, 0))
    picture.paste(other, (90, 300))
    found = detector.detect(np.asarray(picture))
    assert [face.certain for face in found] == [True, True]
    assert found[0].box[1] < 200 < 300 < found[1].box[3]
