"""Decisions, thresholds, searches and files of a calibration."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from model.bundle import DEFAULT, Bundle
from model.calibration import Calibration
from model.calibration.check import _outcome as outcome
from model.calibration.check import check_promises
from model.calibration.files import content_hash
from model.errors import BundleMismatch, CalibrationError
from model.types import Rate, Verdict
from tests.model.calibration.score_models import faces, fit

RANK = {"different": 0, "inconclusive": 1, "same": 2}
SCORES = st.floats(-1, 1)
TARGETS = st.floats(1e-9, 0.5)
QUALITIES = st.one_of(st.none(), st.floats(0, 1))


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
    if below.likelihood_ratio is not None:
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


@pytest.mark.parametrize("seed", [*range(6), "shipped"])
def test_thresholds_never_fall_with_the_target(seed: int | str) -> None:
    """Also where measuring ends and extrapolating begins, which is elsewhere in each sample."""
    calibration = Bundle.load(DEFAULT).calibration if seed == "shipped" else fit(60, seed)
    targets = np.geomspace(0.3, 1e-8, 1500)
    thresholds = [calibration.threshold(target).threshold for target in targets]
    assert (np.diff(thresholds) >= 0).all()
    sizes = np.unique(np.geomspace(1, 1e5, 300).astype(int))
    searching = [calibration.search_threshold(int(size), 0.01).threshold for size in sizes]
    assert (np.diff(searching) >= 0).all()


@given(SCORES, TARGETS, QUALITIES, st.one_of(st.none(), st.floats(0.01, 0.99)))
@settings(deadline=None, max_examples=80)
def test_a_verdict_is_consistent_and_survives_json(
    calibration, score, target, quality, prior
) -> None:
    verdict = calibration.decide(score, target, quality=quality, prior=prior)
    assert TypeAdapter(Verdict).validate_json(json.dumps(verdict.to_dict())) == verdict
    assert verdict.reject_below <= verdict.threshold
    for rate in (verdict.fmr, verdict.fnmr):
        assert 0 <= rate.low <= rate.value <= rate.high <= 1
    if verdict.decision == "different":
        assert verdict.likelihood_ratio <= 1 + 1e-9
    if verdict.likelihood_ratio is None:
        assert quality < calibration.quality_bins[0].low
        assert verdict.decision == "inconclusive"
    if prior is None or verdict.likelihood_ratio is None:
        assert verdict.posterior is None
    else:
        odds = verdict.likelihood_ratio * prior / (1 - prior)
        assert verdict.posterior == pytest.approx(odds / (1 + odds))
    assert verdict.calibration_id == calibration.id
    assert verdict.reasons


def test_a_photo_poorer_than_any_measured_is_no_evidence(calibration) -> None:
    poorest = calibration.quality_bins[0].low
    verdict = calibration.decide(0.99, quality=poorest / 2, prior=0.5)
    assert (verdict.likelihood_ratio, verdict.posterior) == (None, None)
    assert calibration.decide(0.99, quality=poorest, prior=0.5).posterior > 0.5


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
    accept = calibration.threshold(1e-1).threshold
    poor = calibration.decide(accept, 1e-1, quality=0.05)
    good = calibration.decide(accept, 1e-1, quality=0.9)
    assert poor.fmr.value > 1.5 * good.fmr.value
    assert poor.threshold > good.threshold == accept
    assert (poor.decision, good.decision) == ("inconclusive", "same")
    assert any("raised" in reason for reason in poor.reasons)


def test_a_photo_poorer_than_nearly_all_of_the_calibration_is_inconclusive() -> None:
    vectors, labels, quality = faces(60, seed=5)
    quality[0] = 1e-9
    calibration = Calibration.fit(
        vectors, labels, quality=quality, model_id="m", protocol="p", data_fingerprint="f"
    )
    floor = float(np.quantile(quality, 1 / 200))
    poor = calibration.decide(0.99, 1e-2, quality=floor * 0.99)
    assert poor.decision == "inconclusive"
    assert "hardly any photo" in poor.reasons[0]
    assert calibration.decide(0.99, 1e-2, quality=floor).decision == "same"
    with pytest.raises(ValueError, match="quality is nan"):
        calibration.decide(0.5, quality=float("nan"))


def test_thresholds_keep_their_promise_for_people_never_seen(calibration) -> None:
    vectors, labels, _ = faces(400, seed=99)
    checks = check_promises(calibration, vectors, labels)
    assert not any(check.exceeded for check in checks)
    assert {check.fmr for check in checks if check.supported} <= {"kept", "better", "too few"}


def test_the_upper_end_of_the_rate_keeps_the_target_where_the_sample_allows() -> None:
    calibration = fit(600, seed=3)
    point = replace(calibration, code_version="4")
    allowed = 0
    for target in (0.1, 0.05, 0.02, 0.01):
        careful, plain = calibration.threshold(target), point.threshold(target)
        assert careful.threshold >= plain.threshold
        knot = int(np.searchsorted(calibration.parts.scores, careful.threshold))
        if target * calibration._worth[knot] >= 40:
            allowed += 1
            assert calibration.parts.fit.fmr.high[knot] <= target
            assert careful.fmr.value < target
    assert allowed >= 2


def test_a_target_exceeded_within_the_promise_is_not_called_kept(calibration) -> None:
    """The promise itself lay above the target, so an observed rate above it is no surprise."""
    promised, observed = Rate(1e-2, 8e-3, 1.6e-2, 10, 1000), Rate(1.4e-2, 1.1e-2, 1.8e-2, 14, 1000)
    assert outcome(promised, observed, 1e-2, True) == "exceeded"
    assert outcome(promised, observed, 0.0, True) == "kept"  # a rate without a target
    assert outcome(promised, Rate(3e-2, 2e-2, 4e-2, 30, 1000), 1e-2, True) == "broken"


def test_an_older_promise_is_held_against_the_pairs_it_was_made_for(calibration) -> None:
    vectors, labels, _ = faces(60, seed=99)
    left, right = np.triu_indices(len(labels), 1)
    older = check_promises(replace(calibration, code_version="2"), vectors, labels)
    assert older[0].observed_fmr.trials == (labels[left] != labels[right]).sum()
    assert check_promises(calibration, vectors, labels)[0].observed_fmr.trials < (
        older[0].observed_fmr.trials
    )


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
    older = replace(calibration, code_version="0")
    older.save(file)
    assert Calibration.load(file).id == older.id != calibration.id


def test_changed_newer_and_broken_files_are_refused(calibration, tmp_path: Path) -> None:
    file = tmp_path / "calibration.json"
    data = calibration.to_dict()
    for change, message in (
        ({"seed": 5}, "changed after it was made"),
        ({"targets": []}, "changed after it was made"),
        ({"format": 99}, "reads up to"),
        ({"scores": None}, "changed after it was made"),
    ):
        file.write_text(json.dumps({**data, **change}))
        with pytest.raises(CalibrationError, match=message):
            Calibration.load(file)
    file.write_text(json.dumps({name: value for name, value in data.items() if name != "scores"}))
    with pytest.raises(CalibrationError, match="incomplete"):
        Calibration.load(file)
    file.write_text("{")
    with pytest.raises(CalibrationError, match="cannot be read"):
        Calibration.load(file)


def nested(levels: int) -> list:
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["scores"].pop(),
        lambda data: data["fit"]["fmr"]["high"].pop(),
        lambda data: data["likelihood"]["log10"].pop(),
        lambda data: data["likelihood"]["log10"].__setitem__(-1, 400.0),
        lambda data: data.update(code_version=None),
        lambda data: data["tail"].update(rate="x"),
        lambda data: data["scores"].__setitem__(0, float("nan")),
        lambda data: data["everyone"]["fmr"]["low"].__setitem__(0, float("nan")),
        lambda data: data["summary"]["genuine"].update(mean=None),
        lambda data: data.update(protocol=nested(400)),
        lambda data: data["histograms"].update(unknown=nested(400)),
    ],
    ids=[
        "scores", "curve", "likelihood", "endless likelihood", "version", "tail", "nan",
        "nan in a curve", "summary", "deep text", "deep part",
    ],
)  # fmt: skip
def test_a_file_whose_parts_do_not_fit_is_refused(
    calibration: Calibration, change: Callable[[dict], object]
) -> None:
    data = json.loads(calibration.to_json())
    data.pop("id")
    change(data)
    with pytest.raises(CalibrationError):
        Calibration.from_dict({"id": content_hash(data), **data})
