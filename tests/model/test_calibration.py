"""Decisions, thresholds, searches and files of a calibration."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.calibration import Calibration
from model.calibration.check import check_promises
from model.errors import BundleMismatch, CalibrationError
from model.types import Verdict

RANK = {"different": 0, "inconclusive": 1, "same": 2}
SCORES = st.floats(-1, 1)
TARGETS = st.floats(1e-9, 0.5)
QUALITIES = st.one_of(st.none(), st.floats(0, 1))


def faces(
    people: int, seed: int, noise: float = 1.0, world: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, labels and qualities of people; poor photos are nearer to a common face."""
    rng = np.random.default_rng(seed)
    common = np.random.default_rng(world).normal(size=32)
    labels = np.repeat(np.arange(people), rng.integers(1, 6, people))
    quality = rng.random(len(labels))
    vectors = rng.normal(size=(people, 32))[labels]
    vectors = vectors + noise * rng.normal(size=vectors.shape)
    vectors += np.where(quality < 0.2, 1.2, 0.0)[:, None] * common
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), labels, quality


def fit(people: int = 300, seed: int = 1, **options) -> Calibration:
    vectors, labels, quality = faces(people, seed)
    options = {"quality": quality, "model_id": "m" * 64, **options}
    return Calibration.fit(vectors, labels, protocol="drawn", data_fingerprint="f", **options)


@pytest.fixture(scope="module")
def calibration() -> Calibration:
    return fit()


@given(SCORES, SCORES, TARGETS, QUALITIES)
@settings(deadline=None, max_examples=150)
def test_a_higher_score_never_lowers_the_verdict(calibration, one, other, target, quality) -> None:
    low, high = sorted((one, other))
    below = calibration.decide(low, target, quality=quality)
    above = calibration.decide(high, target, quality=quality)
    assert RANK[below.decision] <= RANK[above.decision]
    assert below.fmr.value >= above.fmr.value
    assert below.fnmr.value <= above.fnmr.value
    assert below.likelihood_ratio <= above.likelihood_ratio


@given(SCORES, TARGETS, TARGETS, QUALITIES)
@settings(deadline=None, max_examples=150)
def test_a_stricter_target_never_accepts_more(calibration, score, one, other, quality) -> None:
    strict, loose = sorted((one, other))
    assert calibration.threshold(strict).threshold >= calibration.threshold(loose).threshold
    stricter = calibration.decide(score, strict, quality=quality)
    looser = calibration.decide(score, loose, quality=quality)
    if looser.decision != "same":
        assert stricter.decision != "same"
    if looser.decision == "different":
        assert stricter.decision == "different"


@given(SCORES, TARGETS, QUALITIES, st.one_of(st.none(), st.floats(0.01, 0.99)))
@settings(deadline=None, max_examples=80)
def test_a_verdict_is_consistent_and_survives_json(
    calibration, score, target, quality, prior
) -> None:
    verdict = calibration.decide(score, target, quality=quality, prior=prior)
    assert Verdict.from_dict(json.loads(json.dumps(verdict.to_dict()))) == verdict
    assert verdict.reject_below <= verdict.threshold
    for rate in (verdict.fmr, verdict.fnmr):
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
    if verdict.decision == "different":
        assert verdict.likelihood_ratio <= 1 + 1e-9
    if prior is None:
        assert verdict.posterior is None
    else:
        odds = verdict.likelihood_ratio * prior / (1 - prior)
        assert verdict.posterior == pytest.approx(odds / (1 + odds))
    assert verdict.calibration_id == calibration.id
    assert verdict.reasons


def test_the_three_answers_lie_where_the_thresholds_say(calibration) -> None:
    accept = calibration.threshold(1e-3).threshold
    assert calibration.decide(accept, 1e-3).decision == "same"
    middle = calibration.decide(accept - 1e-4, 1e-3)
    assert middle.decision == "inconclusive"
    assert calibration.decide(middle.reject_below, 1e-3).decision == "inconclusive"
    assert calibration.decide(middle.reject_below - 1e-6, 1e-3).decision == "different"
    summary = calibration.summary
    assert calibration.decide(summary.genuine.mean).d_genuine == pytest.approx(0)
    top = calibration.decide(summary.genuine.mean)
    assert top.d_impostor == pytest.approx(summary.d_prime.value)


def test_poor_photos_that_look_alike_need_a_higher_score(calibration) -> None:
    accept = calibration.threshold(1e-2).threshold
    poor = calibration.decide(accept, 1e-2, quality=0.05)
    good = calibration.decide(accept, 1e-2, quality=0.9)
    assert poor.fmr.value > 3 * good.fmr.value
    assert poor.threshold > good.threshold == accept
    assert (poor.decision, good.decision) == ("inconclusive", "same")
    assert any("raised" in reason for reason in poor.reasons)
    worst = calibration.quality_bins[0].low
    assert calibration.decide(0.99, 1e-2, quality=worst / 2).decision == "inconclusive"


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
    assert any("too small to certify" in reason for reason in verdict.reasons)
    assert any("1 in 1,000,000" in warning for warning in few.warnings)


def test_more_people_support_smaller_targets() -> None:
    smallest = [
        min(t.target_fmr for t in fit(people=people).targets if t.supported) for people in (40, 600)
    ]
    assert smallest[1] < smallest[0]


def test_thresholds_keep_their_promise_for_people_never_seen(calibration) -> None:
    vectors, labels, _ = faces(400, seed=99)
    checks = check_promises(calibration, vectors, labels)
    assert not any(check.drifted for check in checks)
    assert {check.fmr for check in checks if check.supported} <= {"kept", "better", "too few"}


def test_a_model_that_got_worse_breaks_its_promise(calibration) -> None:
    vectors, labels, _ = faces(300, seed=98, noise=1.6)
    blurred = check_promises(calibration, vectors, labels)
    assert any(check.fnmr == "broken" and check.drifted for check in blurred)
    vectors, labels, _ = faces(300, seed=97)
    vectors = vectors + 0.08
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    alike = check_promises(calibration, vectors, labels)
    assert any(check.fmr == "broken" and check.drifted for check in alike)


def test_search_thresholds_rise_with_the_gallery_and_keep_the_chance(calibration) -> None:
    found = [calibration.search_threshold(size, 0.1) for size in (1, 10, 100)]
    assert found[0].threshold == calibration.threshold(0.1).threshold
    assert found[0].threshold < found[1].threshold < found[2].threshold
    for search in found:
        assert 1 - (1 - search.target_fmr) ** search.gallery_size == pytest.approx(0.1)
        assert search.fpir.low <= search.fpir.value <= search.fpir.high
    score = found[1].threshold
    assert calibration.false_match_chance(score, 1).value == calibration.fmr_at(score).value
    chances = [calibration.false_match_chance(score, size).value for size in (1, 10, 1000)]
    assert chances == sorted(chances)


def test_search_chance_matches_a_simulation(calibration) -> None:
    """Strangers search galleries of 50 other people, one photo each."""
    vectors, labels, _ = faces(900, seed=55)
    rng = np.random.default_rng(0)
    search = calibration.search_threshold(50, 0.1)
    firsts = np.unique(labels, return_index=True)[1]
    hits, trials = 0, 0
    for _ in range(150):
        drawn = rng.permutation(firsts)
        gallery, probes = vectors[drawn[:50]], vectors[drawn[50:70]]
        hits += int(((probes @ gallery.T).max(axis=1) >= search.threshold).sum())
        trials += len(probes)
    assert search.fpir.low * 0.6 < hits / trials < search.fpir.high * 1.1


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


def test_files_round_trip_and_name_their_model(calibration, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    calibration.save(file)
    again = Calibration.load(file, model_id="m" * 64)
    assert again.id == calibration.id
    assert again.to_json() == calibration.to_json()
    assert again.decide(0.4, 1e-3, quality=0.3) == calibration.decide(0.4, 1e-3, quality=0.3)
    with pytest.raises(BundleMismatch, match="mmmmmmmmmmmm"):
        Calibration.load(file, model_id="other")
    assert file.stat().st_size < 400_000


def test_changed_newer_and_broken_files_are_refused(calibration, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    data = calibration.to_dict()
    for change, message in (
        ({"seed": 5}, "changed after it was made"),
        ({"format": 99}, "reads up to"),
        ({"scores": None}, "incomplete"),
    ):
        file.write_text(json.dumps({**data, **change}))
        with pytest.raises(CalibrationError, match=message):
            Calibration.load(file)
    file.write_text("{")
    with pytest.raises(CalibrationError, match="cannot be read"):
        Calibration.load(file)


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


def test_group_rates_match_direct_counting() -> None:
    from model.calibration.fit import split_people

    vectors, labels, _ = faces(200, seed=6)
    groups = np.where(labels % 2 == 0, "even", "odd")
    calibration = Calibration.fit(
        vectors, labels, model_id="m", groups=groups, protocol="p", data_fingerprint="f"
    )
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
    whole = Calibration.fit(vectors, labels, max_photos=None, **options)
    assert whole.genuine_pairs == 400 * 399 // 2 + 39 * 3
    assert any("of one person" in warning for warning in whole.warnings)


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
