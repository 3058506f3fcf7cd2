"""d', EER and FNMR at a given FMR against scikit-learn and pyeer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import roc_curve

from model.calibration import TARGETS, Calibration
from model.calibration.pairs.people import split_people
from model.calibration.pairs.scores import Sample
from model.calibration.summary import summarise

TOLERANCE = 1e-6


@pytest.fixture(scope="module")
def photos() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    labels = np.repeat(np.arange(150), rng.integers(1, 7, 150))
    vectors = rng.normal(size=(150, 24))[labels] + rng.normal(size=(len(labels), 24))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.fixture(scope="module")
def calibration(photos) -> Calibration:
    vectors, labels = photos
    return Calibration.fit(
        vectors, labels, model_id="m", protocol="drawn", data_fingerprint="f", max_photos=None
    )


def all_pairs(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Same-person and stranger scores, one by one, in double precision."""
    left, right = np.triu_indices(len(labels), 1)
    scores = (vectors.astype(float) @ vectors.astype(float).T)[left, right]
    same = labels[left] == labels[right]
    return scores[same], scores[~same]


def sklearn_rates(genuine: np.ndarray, impostor: np.ndarray):
    truth = np.r_[np.ones(len(genuine)), np.zeros(len(impostor))]
    fmr, tpr, thresholds = roc_curve(truth, np.r_[genuine, impostor], drop_intermediate=False)
    return fmr, 1 - tpr, thresholds


def pyeer_figures(genuine: np.ndarray, impostor: np.ndarray) -> dict[str, float]:
    pyeer = pytest.importorskip("pyeer.eer_stats")
    thresholds, fmr, fnmr = pyeer.calculate_roc(genuine, impostor)
    index, _, _, eer = pyeer.get_eer_values(fmr, fnmr)
    moments = genuine.mean(), genuine.std(), impostor.mean(), impostor.std()
    return {
        "d_prime": pyeer.get_decidability_value(*moments),
        "eer": eer,
        "eer_threshold": thresholds[index],
        "fnmr_at_1_percent": pyeer.get_fmr_op(fmr, fnmr, 0.01)[1],
    }


def test_d_prime_and_eer_agree_with_pyeer(calibration, photos) -> None:
    theirs = pyeer_figures(*all_pairs(*photos))
    ours = calibration.summary
    assert ours.d_prime.value == pytest.approx(theirs["d_prime"], abs=TOLERANCE)
    # Ours come from products in single precision: one pair may fall on the threshold's other side.
    assert ours.eer.value == pytest.approx(theirs["eer"], abs=1 / calibration.impostor_pairs)


def test_eer_agrees_with_sklearn(calibration, photos) -> None:
    fmr, fnmr, _ = sklearn_rates(*all_pairs(*photos))
    nearest = np.argmin(np.abs(fmr - fnmr))
    step = 1 / calibration.genuine_pairs
    assert calibration.summary.eer.value == pytest.approx(
        (fmr[nearest] + fnmr[nearest]) / 2, abs=step
    )


def test_thresholds_and_rates_of_the_halves_agree_with_sklearn(calibration, photos) -> None:
    vectors, labels = photos
    half = split_people(labels, 0)
    chosen = sklearn_rates(*all_pairs(vectors[half == 0], labels[half == 0]))
    genuine, impostor = all_pairs(vectors[half == 1], labels[half == 1])
    plain = replace(calibration, code_version="4")  # the rate itself, without a margin
    for target in plain.targets:
        if target.extrapolated:
            continue
        fmr, _, thresholds = chosen
        expected = thresholds[fmr <= target.target_fmr].min()
        assert target.threshold == pytest.approx(expected, abs=2e-6)
        assert target.fmr.value == pytest.approx((impostor >= expected).mean(), abs=TOLERANCE)
        assert target.fnmr.value == pytest.approx((genuine < expected).mean(), abs=TOLERANCE)
        assert target.fmr.trials == len(impostor)


def test_fnmr_at_every_fmr_agrees_with_sklearn_for_plain_scores() -> None:
    rng = np.random.default_rng(2)
    genuine, impostor = rng.normal(2.5, 1, 3001), rng.normal(0, 1.2, 20_001)
    sample = Sample.of(genuine, impostor)
    fmr, fnmr, thresholds = sklearn_rates(genuine, impostor)
    order = np.searchsorted(-thresholds, -sample.values)
    np.testing.assert_allclose(sample.false_matches / 20_001, fmr[order], atol=TOLERANCE)
    below = sample.false_non_matches / 3001
    np.testing.assert_allclose(below, fnmr[order], atol=TOLERANCE)


def test_plain_scores_agree_with_pyeer() -> None:
    rng = np.random.default_rng(3)
    genuine, impostor = rng.normal(60, 9, 700), rng.gamma(4, 6, 5000)
    theirs, sample = pyeer_figures(genuine, impostor), Sample.of(genuine, impostor)
    ours = summarise(sample)
    assert ours.eer.value == pytest.approx(theirs["eer"], abs=TOLERANCE)
    assert ours.eer_threshold == pytest.approx(theirs["eer_threshold"], abs=TOLERANCE)
    assert ours.d_prime.value == pytest.approx(theirs["d_prime"], abs=TOLERANCE)
    reached = np.flatnonzero(sample.false_matches <= 50)[0]
    fnmr = sample.false_non_matches[reached] / 700
    assert fnmr == pytest.approx(theirs["fnmr_at_1_percent"], abs=TOLERANCE)


def test_plain_scores_give_the_rates_of_their_halves() -> None:
    rng = np.random.default_rng(4)
    genuine, impostor = rng.normal(4, 1, 2000), rng.normal(0, 1, 60_000)
    found = Calibration.from_scores(
        genuine, impostor, model_id="m", protocol="drawn", data_fingerprint="f"
    )
    assert found.people == 0
    assert any("too narrow" in warning for warning in found.warnings)
    found = replace(found, code_version="4")  # the rate itself, without a margin
    for target in found.targets[:3]:
        assert target.supported
        assert target.fmr.value == pytest.approx(target.target_fmr, rel=0.35)
        share = (impostor >= target.threshold).mean()
        assert found.fmr_at(target.threshold).value == pytest.approx(share, abs=1e-6)
    assert tuple(target.target_fmr for target in found.targets) == TARGETS
