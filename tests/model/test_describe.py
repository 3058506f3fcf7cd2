"""``python -m model describe``: the report, the picture, the errors."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.__main__ import main
from model.faces.annotate import GOOD, POOR, annotate
from model.faces.detect import Detector
from model.types import Face, Quality, Reason
from tests import samples
from tests.model.helpers import small_bundle

LANDMARKS = np.array([[40, 50], [70, 50], [55, 65], [42, 80], [68, 80]], np.float32)
FACE = Face((30, 30, 80, 95), LANDMARKS, 1.0)
FINE = Quality(1.0)
DARK = Quality(0.2, (Reason("too_dark", "The face is dark.", 0.1, 0.5),))


@pytest.fixture(scope="module")
def two_people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("photos") / "two.png"
    Image.fromarray(samples.pair()).save(path)
    return path


def test_the_report_says_what_the_detector_found(
    two_people: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["describe", str(two_people), "--no-embedding"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["width"], report["height"]) == (1024, 600)
    expected = Detector().detect(samples.pair())
    assert [face["number"] for face in report["faces"]] == [1, 2]
    for described, face in zip(report["faces"], expected, strict=True):
        np.testing.assert_allclose(described["box"], face.box, atol=0.06)
        np.testing.assert_allclose(described["landmarks"], face.landmarks, atol=0.06)
        assert described["quality"]["reasons"] == []
        assert "embedding" not in described


def test_the_report_carries_the_embedding_and_its_model(
    two_people: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = small_bundle(tmp_path / "bundle")
    arguments = ["describe", str(two_people), "--bundle", str(bundle.path)]
    assert main([*arguments, "--faces", "largest_central"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["model"]["model_id"] == bundle.model_id
    [face] = report["faces"]
    assert face["embedding"]["norm"] == pytest.approx(1, abs=1e-5)
    assert face["embedding"]["dimensions"] == bundle.dim


def test_reasons_are_explained(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "dark.png"
    Image.fromarray((samples.hopper() * 0.2).astype(np.uint8)).save(path)
    assert main(["describe", str(path), "--no-embedding"]) == 0
    [face] = json.loads(capsys.readouterr().out)["faces"]
    [reason] = face["quality"]["reasons"]
    assert reason["code"] == "too_dark"
    assert "dark" in reason["message"]
    assert reason["value"] < reason["limit"]


def test_the_annotated_picture_is_written(two_people: Path, tmp_path: Path) -> None:
    out = tmp_path / "annotated.png"
    assert main(["describe", str(two_people), "--no-embedding", "--annotate", str(out)]) == 0
    drawn = np.asarray(Image.open(out))
    assert drawn.shape == (600, 1024, 3)
    changed = (drawn != samples.pair()).any(axis=2).mean()
    assert 0.001 < changed < 0.1


def test_a_picture_without_faces_has_an_empty_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "grey.png"
    Image.new("RGB", (90, 70), "grey").save(path)
    assert main(["describe", str(path), "--no-embedding"]) == 1
    assert json.loads(capsys.readouterr().out)["faces"] == []


@pytest.mark.parametrize(
    ("extra", "says"),
    [
        (["--faces", "exactly_one"], "2 faces"),
        (["--annotate", "/nowhere/at/all.png"], "cannot be written"),
        (["--annotate", "picture.nonsense"], "cannot be written"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    extra: list[str],
    says: str,
    two_people: Path,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["describe", str(two_people), "--no-embedding", *extra]) == 3
    assert says in capsys.readouterr().err


def test_a_missing_photo_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["describe", "no-such-photo.jpg", "--no-embedding"]) == 3
    assert "no-such-photo.jpg" in capsys.readouterr().err


@pytest.mark.parametrize(("quality", "colour"), [(FINE, GOOD), (DARK, POOR)])
def test_boxes_are_coloured_by_quality(quality: Quality, colour: tuple[int, int, int]) -> None:
    drawn = annotate(np.full((120, 160, 3), 128, np.uint8), [FACE], [quality])
    assert tuple(drawn[60, 30]) == colour
    assert tuple(drawn[60, 80]) == colour


def test_landmarks_are_marked() -> None:
    drawn = annotate(np.full((120, 160, 3), 128, np.uint8), [FACE])
    for x, y in LANDMARKS.astype(int):
        assert (drawn[y, x] != 128).any()


def test_the_original_is_left_alone() -> None:
    image = np.full((120, 160, 3), 128, np.uint8)
    annotate(image, [FACE], [DARK])
    assert (image == 128).all()


@pytest.mark.parametrize("box", [(-50, -60, 40, 30), (100, 90, 400, 300), (-9, -9, 999, 999)])
def test_boxes_over_the_edge_are_drawn(box: tuple[int, int, int, int]) -> None:
    drawn = annotate(np.full((120, 160, 3), 128, np.uint8), [Face(box, LANDMARKS, 1.0)], [DARK])
    assert (drawn == POOR).all(axis=2).any()


def test_qualities_must_match_the_faces() -> None:
    with pytest.raises(ValueError, match="2 faces"):
        annotate(np.zeros((9, 9, 3), np.uint8), [FACE, FACE], [FINE])
