"""Further collections: thresholds hold on them too, and never fall."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.calibration import Calibration
from model.calibration.adapt import adapt
from model.calibration.pairs.further import Further
from tests.model.calibration.score_models import faces

OPTIONS = {"model_id": "m", "protocol": "p", "data_fingerprint": "f"}


def alike(people: int, seed: int) -> Further:
    """People who resemble each other more than those calibrated on."""
    vectors, labels, _ = faces(people, seed=seed)
    common = np.random.default_rng(8).normal(size=vectors.shape[1])
    vectors = vectors + 0.6 * common / np.linalg.norm(common)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return Further("alike", vectors.astype(np.float32), labels)


@pytest.fixture(scope="module")
def fitted() -> tuple[Calibration, Calibration, Further]:
    vectors, labels, _ = faces(250, seed=4)
    further = alike(150, seed=5)
    plain = Calibration.fit(vectors, labels, **OPTIONS)
    return plain, Calibration.fit(vectors, labels, further=[further], **OPTIONS), further


def false_match_rate(further: Further, half: int, threshold: float) -> float:
    """Counted pair by pair, over all photos."""
    rows = np.flatnonzero(further.half() == half)
    scores = further.embeddings[rows] @ further.embeddings[rows].T
    strangers = further.labels[rows][:, None] != further.labels[rows]
    return float((scores[strangers] >= threshold).mean())


def test_thresholds_rise_until_the_target_is_kept_on_both(fitted) -> None:
    plain, calibration, further = fitted
    before, after = plain.threshold(1e-2), calibration.threshold(1e-2)
    assert false_match_rate(further, 0, before.threshold) > 2e-2
    assert false_match_rate(further, 0, after.threshold) < 1.5e-2
    assert false_match_rate(further, 1, after.threshold) < 2e-2
    assert after.fmr.value < before.fmr.value


def test_no_threshold_falls_and_stricter_targets_have_higher_ones(fitted) -> None:
    plain, calibration, _ = fitted
    targets = [10**-power for power in np.arange(0.5, 7, 0.25)]
    before, after = ([c.threshold(t).threshold for t in targets] for c in (plain, calibration))
    assert all(new >= old for new, old in zip(after, before, strict=True))
    assert after == sorted(after)


def test_a_collection_without_hard_pairs_changes_nothing() -> None:
    vectors, labels, _ = faces(250, seed=4)
    apart = Further("apart", np.eye(60, vectors.shape[1], dtype=np.float32), np.arange(60) // 2)
    plain = Calibration.fit(vectors, labels, **OPTIONS)
    same = Calibration.fit(vectors, labels, further=[apart], **OPTIONS)
    assert same.targets == plain.targets


def test_the_rate_at_a_score_is_that_of_the_worst_collection(fitted) -> None:
    plain, calibration, further = fitted
    score = 0.35
    expected = false_match_rate(further, 1, score)
    assert expected > plain.fmr_at(score).value
    assert calibration.fmr_at(score).value == pytest.approx(expected, rel=0.25)


def test_a_file_keeps_further_collections(fitted, tmp_path: Path) -> None:
    _, calibration, _ = fitted
    calibration.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json")
    assert again.targets == calibration.targets
    assert [each.name for each in again.parts.further] == ["alike"]


def test_an_adapted_calibration_does_not_fall_below_them(fitted) -> None:
    _, calibration, _ = fitted
    vectors, labels, _ = faces(30, seed=6)
    moved = adapt(calibration, vectors, labels, data_fingerprint="own").calibration
    for old, new in zip(calibration.targets, moved.targets, strict=True):
        assert new.threshold >= old.threshold
