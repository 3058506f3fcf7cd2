"""A calibration moved to a few people keeps its promises where theirs differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.calibration import Calibration
from model.calibration.adapt import adapt
from model.errors import CalibrationError
from tests.model.calibration.score_models import faces, fit


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return fit(500)


def alike(people: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """People who look more alike, and whose photos differ more, than the calibration's."""
    vectors, labels, _ = faces(people, seed, noise=1.2)
    vectors = vectors + 0.35 * np.random.default_rng(3).normal(size=32) / 32**0.5
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


def stranger_rate(vectors: np.ndarray, labels: np.ndarray, threshold: float) -> float:
    left, right = np.triu_indices(len(labels), 1)
    scores = (vectors @ vectors.T)[left, right]
    return float((scores[labels[left] != labels[right]] >= threshold).mean())


def test_fewer_strangers_pass_and_misses_are_told_nearer_the_truth(calibration) -> None:
    rest, rest_labels = alike(400, seed=50)
    left, right = np.triu_indices(len(rest_labels), 1)
    same = rest_labels[left] == rest_labels[right]
    genuine = (rest @ rest.T)[left, right][same]
    target = 1e-2
    before = calibration.threshold(target)
    told, kept = [], []
    for seed in range(8):
        moved = adapt(calibration, *alike(30, seed), data_fingerprint="own").calibration
        threshold = moved.threshold(target)
        kept.append(stranger_rate(rest, rest_labels, threshold.threshold))
        missed = (genuine < threshold.threshold).mean()
        told.append((abs(threshold.fnmr.value - missed), abs(before.fnmr.value - missed)))
    assert np.median(kept) < stranger_rate(rest, rest_labels, before.threshold)
    assert np.mean(told, axis=0)[0] < np.mean(told, axis=0)[1]


def test_a_threshold_never_falls_and_stays_ordered(calibration) -> None:
    found = adapt(calibration, *faces(30, seed=9)[:2], data_fingerprint="own")
    for each in found.thresholds:
        assert each.moved.threshold >= each.shipped.threshold - 1e-9
        assert each.distance.low <= each.distance.high
    thresholds = [each.moved.threshold for each in found.thresholds]
    assert thresholds == sorted(thresholds)


def test_it_decides_and_survives_its_file(calibration, tmp_path: Path) -> None:
    vectors, labels = alike(25, seed=1)
    moved = adapt(calibration, vectors, labels, data_fingerprint="own").calibration
    moved.save(tmp_path / "c.json")
    again = Calibration.load(tmp_path / "c.json", calibration.model_id)
    assert again.id == moved.id != calibration.id
    ranks = {"different": 0, "inconclusive": 1, "same": 2}
    for quality in (None, 0.05, 0.9):
        verdicts = [moved.decide(score, 1e-2, quality=quality) for score in np.linspace(-1, 1, 41)]
        order = [ranks[verdict.decision] for verdict in verdicts]
        assert order == sorted(order)
        assert order[-1] == 2
        for rate in (rate for verdict in verdicts for rate in (verdict.fmr, verdict.fnmr)):
            assert 0 <= rate.low <= rate.value <= rate.high <= 1
    assert moved.summary.d_prime.value < calibration.summary.d_prime.value


def test_more_people_narrow_the_interval(calibration) -> None:
    widths = []
    for people in (15, 200):
        found = adapt(calibration, *alike(people, seed=2), data_fingerprint="own")
        widths.append(found.thresholds[1].distance.high - found.thresholds[1].distance.low)
    assert widths[1] < 0.6 * widths[0]


def test_too_few_people_are_refused(calibration) -> None:
    with pytest.raises(CalibrationError, match="10"):
        adapt(calibration, *faces(6, seed=0)[:2], data_fingerprint="own")
