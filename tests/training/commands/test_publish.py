"""What a model that ships is calibrated on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.faces.quality import CHECKS
from training.commands.publish import calibrate
from training.datasets import Table, lfw
from training.inputs.crops import Crops

PEOPLE, PHOTOS = 80, 3


def test_the_calibration_takes_dev_train_with_its_names_set_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Person 1 is person 0, one photo of person 2 is left out and one holds no face."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(PEOPLE), PHOTOS)
    names = tuple(f"{person:03d}" for person in range(PEOPLE))
    paths = tuple(Path(names[label], f"{row}.jpg") for row, label in enumerate(labels))
    centres = rng.normal(size=(PEOPLE, 32))
    centres[1] = centres[0]
    vectors = centres[labels] + 0.3 * rng.normal(size=(len(labels), 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    found = np.ones(len(labels), bool)
    found[8] = False
    measures = {check.measure: np.full(len(labels), check.good, np.float32) for check in CHECKS}
    crops = Crops(np.zeros((len(labels), 1, 1, 3), np.uint8), found, measures, "photos")
    (tmp_path / "wrong.csv").write_text("name,person,why\n001,000,one name\n002/6.jpg,,blurred\n")
    monkeypatch.setattr(lfw, "CORRECTIONS", tmp_path / "wrong.csv")
    train, test = np.split(np.arange(len(labels)), [-PHOTOS])
    parts = {"DevTrain": train, "DevTest": test}
    monkeypatch.setattr(lfw, "dev_rows", lambda root, table, part: parts[part])
    table = Table("lfw", paths, labels, names, faces=True)

    calibration = calibrate(tmp_path, table, crops, vectors.astype(np.float32), "model")

    assert calibration.people == PEOPLE - 2
    assert calibration.photos == len(labels) - PHOTOS - 2
    pairs_of_six, pairs_of_three = 15, 3
    assert calibration.genuine_pairs == pairs_of_six + pairs_of_three * (PEOPLE - 4)
    assert calibration.fmr_at(0.8).errors == 0
    assert "photos given to another person: 3, left out: 1" in calibration.protocol
