"""Spoiled copies: what they change, what they leave alone, and what is said of each kind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.calibration import Calibration
from model.calibration.kinds import Copies
from model.calibration.pairs.people import split_people
from model.calibration.pairs.scores import Collection, tiles
from tests.model.calibration.score_models import faces


def spoil(vectors: np.ndarray, quality: np.ndarray) -> Copies:
    """Every photo once more: nearer to a common face, and of low quality."""
    common = np.random.default_rng(8).normal(size=vectors.shape[1])
    copies = vectors + 0.8 * common / np.linalg.norm(common)
    copies /= np.linalg.norm(copies, axis=1, keepdims=True)
    rows = np.arange(len(vectors))
    kinds = np.where(rows % 2, "dark", "blurred")
    return Copies(copies.astype(np.float32), rows, 0.05 * quality, kinds)


@pytest.fixture(scope="module")
def fitted() -> tuple[Calibration, Calibration]:
    vectors, labels, quality = faces(250, seed=4)
    options = {"quality": quality, "model_id": "m", "protocol": "p", "data_fingerprint": "f"}
    plain = Calibration.fit(vectors, labels, **options)
    return plain, Calibration.fit(vectors, labels, copies=spoil(vectors, quality), **options)


def test_copies_leave_the_rates_of_the_photos_alone(fitted) -> None:
    plain, spoiled = fitted
    assert spoiled.genuine_pairs == plain.genuine_pairs
    assert [t.threshold for t in spoiled.targets] == [t.threshold for t in plain.targets]
    assert plain.kinds == ()


def test_copies_make_poor_photos_known_and_their_thresholds_rise(fitted) -> None:
    plain, spoiled = fitted
    assert spoiled.quality_bins[0].low < plain.quality_bins[0].low
    poor, good = (spoiled.decide(0.4, 1e-2, quality=quality) for quality in (0.02, 0.95))
    assert poor.threshold > good.threshold
    assert poor.likelihood_ratio is not None


def test_each_kind_has_its_answers_on_people_thresholds_were_not_chosen_on(fitted) -> None:
    spoiled = fitted[1]
    assert {found.kind for found in spoiled.kinds} == {"whole", "blurred", "dark"}
    for found in spoiled.kinds:
        assert 0 < found.people <= spoiled.people / 2 + 1
        assert found.different.value <= found.missed.value
        assert found.fmr.low <= found.fmr.value <= found.fmr.high
    dark = next(f for f in spoiled.kinds if (f.kind, f.target_fmr) == ("dark", 1e-2))
    # The threshold for such photos was raised, so what passes is near the target again.
    assert dark.fmr.value < 3e-2


def test_the_answers_to_whole_photos_are_those_of_decide(fitted) -> None:
    vectors, labels, quality = faces(250, seed=4)
    spoiled = fitted[1]
    [found] = [f for f in spoiled.kinds if (f.kind, f.target_fmr) == ("whole", 1e-2)]
    held_out = np.flatnonzero(split_people(labels, 0) == 1)
    left, right = (held_out[side] for side in np.triu_indices(len(held_out), 1))
    own = labels[left] == labels[right]
    answers = [
        spoiled.decide(
            float(np.float32(vectors[a] @ vectors[b])), 1e-2, quality=min(quality[a], quality[b])
        ).decision
        for a, b in zip(left[own], right[own], strict=True)
    ]
    assert found.missed.trials == len(answers)
    assert found.missed.errors == sum(answer != "same" for answer in answers)
    assert found.different.errors == answers.count("different")


def test_a_file_keeps_the_kinds(fitted, tmp_path: Path) -> None:
    fitted[1].save(tmp_path / "c.json")
    assert Calibration.load(tmp_path / "c.json").kinds == fitted[1].kinds


def test_two_copies_of_one_photo_make_no_pair() -> None:
    vectors = np.eye(3, dtype=np.float32)
    labels, source = np.array([0, 0, 0]), np.array([5, 5, 6])
    collection = Collection.of(vectors, labels, np.zeros(3, int), None, source)
    assert sum(len(tile.index) for tile in tiles(collection)) == 2
