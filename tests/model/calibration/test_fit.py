"""Fitting a calibration: what a sample supports, its groups, its warnings, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from model.calibration import Calibration
from model.errors import CalibrationError
from tests.model.calibration.score_models import faces, fit


def test_small_samples_support_no_small_targets() -> None:
    few = fit(people=24)
    supported = {target.target_fmr: target.supported for target in few.targets}
    assert supported[1e-1]
    assert not supported[1e-4]
    assert not supported[1e-6]
    strict = few.threshold(1e-6)
    assert strict.extrapolated
    assert strict.threshold > few.threshold(1e-3).threshold
    verdict = few.decide(0.99, 1e-6)
    assert not verdict.supported
    assert any("too small to measure" in reason for reason in verdict.reasons)
    assert any("1 in 1 million" in warning for warning in few.warnings)


def test_a_threshold_that_no_two_photos_reach_is_called_so() -> None:
    rng = np.random.default_rng(0)
    few = Calibration.from_scores(
        rng.normal(0.7, 0.1, 500).clip(max=1), rng.exponential(0.12, 2000).clip(max=1),
        model_id="m", protocol="p", data_fingerprint="f",
    )  # fmt: skip
    assert few.threshold(1e-6).threshold > 1
    *_, reason = few.decide(1.0, 1e-6).reasons
    assert "above 1, which no two photos exceed" in reason
    assert not any("above 1" in reason for reason in few.decide(1.0, 1e-2).reasons)


def test_more_people_support_smaller_targets() -> None:
    smallest = [
        min(t.target_fmr for t in fit(people=people).targets if t.supported) for people in (40, 600)
    ]
    assert smallest[1] < smallest[0]


def test_tails_that_are_not_gaussian_are_named() -> None:
    rng = np.random.default_rng(0)
    options = {"model_id": "m", "protocol": "p", "data_fingerprint": "f"}
    straight = Calibration.from_scores(
        rng.normal(4, 1, 20_000), rng.normal(0, 1, 200_000), **options
    )
    assert not any("Gaussian" in warning for warning in straight.warnings)
    heavy = Calibration.from_scores(
        rng.normal(12, 1, 20_000), rng.standard_t(4, 200_000), **options
    )
    assert any("strangers match" in warning for warning in heavy.warnings)
    assert not any("fail" in warning for warning in heavy.warnings)
    lost = np.where(rng.random(20_000) < 0.02, rng.normal(0, 1, 20_000), rng.normal(8, 1, 20_000))
    label_noise = Calibration.from_scores(lost, rng.normal(0, 1, 200_000), **options)
    assert any("photos of one person fail" in warning for warning in label_noise.warnings)


def test_scores_alone_have_intervals_of_pairs_drawn_again() -> None:
    rng = np.random.default_rng(3)
    genuine, impostor = rng.normal(2, 1, 200), rng.normal(0, 1, 2000)
    found = Calibration.from_scores(
        genuine, impostor, model_id="m", protocol="p", data_fingerprint="f"
    ).summary
    draws = []
    for _ in range(400):
        one, other = rng.choice(genuine, 200), rng.choice(impostor, 2000)
        draws.append((one.mean() - other.mean()) / np.sqrt((one.var() + other.var()) / 2))
    expected = np.quantile(draws, [0.025, 0.975])
    assert [found.d_prime.low, found.d_prime.high] == pytest.approx(expected, abs=0.06)
    assert found.eer.low < found.eer.value < found.eer.high


def test_no_interval_of_a_rate_goes_below_zero() -> None:
    for seed in range(10):
        vectors, labels, _ = faces(12, seed, noise=0.4)
        eer = Calibration.fit(
            vectors, labels, model_id="m", protocol="p", data_fingerprint="f"
        ).summary.eer
        assert 0 <= eer.low <= eer.value <= eer.high <= 1


def test_groups_are_measured_at_the_one_threshold_unless_too_few() -> None:
    labels = faces(300, seed=1)[1]
    groups = np.select([labels < 130, labels < 280, labels < 296], ["first", "second", "few"], "")
    calibration = fit(quality=None, groups=groups)
    measured = [target for target in calibration.targets if not target.extrapolated]
    found = {}
    for rates in calibration.groups:
        found.setdefault(rates.groups, []).append(rates)
    assert set(found) == {
        ("few", "few"), ("few", "first"), ("few", "second"),
        ("first", "first"), ("first", "second"), ("second", "second"),
    }  # fmt: skip
    for groups, rows in found.items():
        assert [row.threshold for row in rows] == [target.threshold for target in measured]
        assert all((row.fmr is None) == ("few" in groups) for row in rows)
        within = groups[0] == groups[1] != "few"
        assert all((row.fnmr is not None) == within for row in rows)


def test_a_group_that_hardly_meets_strangers_has_no_rate_of_false_matches() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(80), 10)
    vectors = rng.normal(size=(80, 16))[labels] + rng.normal(size=(800, 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    groups = np.where(np.arange(800) % 10 == 0, "glasses", "none")
    calibration = Calibration.fit(
        vectors, labels, groups=groups, model_id="m", protocol="p", data_fingerprint="f"
    )
    rates = {found.groups: found for found in calibration.groups}
    assert rates["glasses", "glasses"].fmr is None
    assert rates["none", "none"].fmr is not None


def test_group_rates_match_direct_counting() -> None:
    from model.calibration.pairs.people import split_people

    vectors, labels, _ = faces(200, seed=6)
    groups = np.where(labels % 2 == 0, "even", "odd")
    calibration = Calibration.fit(
        vectors, labels, model_id="m", groups=groups, protocol="p", data_fingerprint="f",
        max_photos=None,
    )  # fmt: skip
    held_out = split_people(labels, 0) == 1
    matrix = vectors[held_out] @ vectors[held_out].T
    left, right = np.triu_indices(len(matrix), 1)
    person, group = labels[held_out], groups[held_out]
    crossing = (person[left] != person[right]) & (group[left] != group[right])
    scores = matrix[left, right][crossing]
    rates = next(r for r in calibration.groups if r.groups == ("even", "odd"))
    assert rates.fmr.trials == crossing.sum()
    assert rates.fmr.errors == pytest.approx((scores >= rates.threshold).sum(), abs=1)


def test_photos_of_one_person_are_capped_and_it_is_said() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(40), [400, *[3] * 39])
    vectors = rng.normal(size=(40, 16))[labels] + rng.normal(size=(len(labels), 16))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    options = {"model_id": "m", "protocol": "p", "data_fingerprint": "f"}
    capped = Calibration.fit(vectors, labels, **options)
    assert capped.photos == 10 + 39 * 3
    assert "at most 10 photos" in capped.protocol
    assert "at most 3 of them in stranger pairs" in capped.protocol
    assert capped.impostor_pairs == 3 * 3 * (40 * 39 // 2)
    whole = Calibration.fit(vectors, labels, max_photos=None, **options)
    assert whole.genuine_pairs == 400 * 399 // 2 + 39 * 3
    assert any("of one person" in warning for warning in whole.warnings)


def test_two_brothers_with_many_photos_count_no_more_than_nine_times() -> None:
    vectors, labels, _ = faces(100, 3)
    rng = np.random.default_rng(0)
    face = rng.normal(size=vectors.shape[1])
    brothers = face + 0.01 * rng.normal(size=(40, vectors.shape[1]))
    brothers /= np.linalg.norm(brothers, axis=1, keepdims=True)
    last = labels.max()
    joined = np.r_[vectors, brothers], np.r_[labels, np.repeat([last + 1, last + 2], 20)]
    found = Calibration.fit(*joined, model_id="m", protocol="", data_fingerprint="")
    assert found.fmr_at(0.99).errors == 9
    whole = Calibration.fit(
        *joined, model_id="m", protocol="", data_fingerprint="", max_photos=None
    )
    assert whole.fmr_at(0.99).errors == 400


def test_same_seed_same_calibration() -> None:
    one, two, other = fit(people=40), fit(people=40), fit(people=40, seed=2)
    assert one.parts.scores.tolist() == two.parts.scores.tolist()
    assert one.targets == two.targets
    assert one.targets != other.targets


def test_wrong_input_is_named() -> None:
    vectors, labels, _ = faces(40, 0)
    options = {"model_id": "m", "protocol": "p", "data_fingerprint": "f"}
    with pytest.raises(ValueError, match="unit vectors"):
        Calibration.fit(vectors * 2, labels, **options)
    with pytest.raises(ValueError, match="N labels"):
        Calibration.fit(vectors, labels[:-1], **options)
    with pytest.raises(ValueError, match="quality has 1"):
        Calibration.fit(vectors, labels, quality=np.ones(1), **options)
    with pytest.raises(CalibrationError, match="too few"):
        Calibration.fit(vectors[:4], labels[:4], **options)
    with pytest.raises(CalibrationError, match="no pair of photos of one person"):
        Calibration.fit(vectors, np.arange(len(labels)), **options)
    calibration = fit(people=40)
    with pytest.raises(ValueError, match="finite"):
        calibration.decide(float("nan"))
    with pytest.raises(ValueError, match="target_fmr"):
        calibration.threshold(0)
    with pytest.raises(ValueError, match="prior"):
        calibration.decide(0.1, prior=1.0)
    with pytest.raises(ValueError, match="gallery_size"):
        calibration.search_threshold(0, 0.1)


def test_a_photo_filed_under_two_people_leaves_small_targets_unsupported() -> None:
    vectors, labels, _ = faces(100, 3)
    for person in range(40, 90):
        vectors[np.flatnonzero(labels == person)[0]] = vectors[0]
    found = Calibration.fit(vectors, labels, model_id="m", protocol="", data_fingerprint="")
    assert not found.threshold(1e-6).supported
    assert found.decide(0.9, 1e-6).decision != "same"


def test_a_photo_filed_under_two_people_is_no_error_when_photos_are_judged() -> None:
    vectors, labels, quality = faces(20, 3)
    for person in range(10, 20):
        vectors[np.flatnonzero(labels == person)[0]] = vectors[0]
    found = Calibration.fit(
        vectors, labels, quality=quality, model_id="m", protocol="", data_fingerprint=""
    )
    for bin_ in found.quality_bins:
        verdict = found.decide(1.0, 1e-9, quality=(bin_.low + bin_.high) / 2)
        assert verdict.decision == "inconclusive"
