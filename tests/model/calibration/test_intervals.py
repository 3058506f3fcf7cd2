"""Do 95% intervals hold the truth 95 times in 100, and do pairs alone fail to?"""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from model.calibration.intervals import (
    RateCurve,
    false_match_curve,
    false_non_match_curve,
    interval,
)
from model.calibration.pairs.person_counts import PersonCounter
from model.calibration.pairs.scores import Sample
from model.calibration.summary import bootstrap, summarise
from tests.model.calibration.score_models import MODELS, ScoreModel, count

PEOPLE = 160
FMRS = (0.1, 0.01, 0.003)
FNMRS = (0.03, 0.1, 0.3)


def coverage(model: ScoreModel, runs: int, seed: int = 0) -> dict[str, float]:
    """Share of runs whose interval holds the truth, for people and for a naive bootstrap."""
    accept = [model.threshold(fmr) for fmr in FMRS]
    reject = [float(model.marginal.ppf(fnmr)) + model.shift for fnmr in FNMRS]
    knots = np.unique([*accept, *reject])
    truth = {
        "fmr": (np.searchsorted(knots, accept), np.array(FMRS)),
        "fnmr": (np.searchsorted(knots, reject), np.array(FNMRS)),
    }
    hits = dict.fromkeys(("fmr", "fnmr", "pairs fmr", "pairs fnmr"), 0)
    for run in range(runs):
        rng = np.random.default_rng([seed, run])
        counts = count(model.draw(PEOPLE, rng), knots, PEOPLE)
        curves = {"fmr": false_match_curve(counts), "fnmr": false_non_match_curve(counts)}
        for name, curve in curves.items():
            at, rates = truth[name]
            hits[name] += ((curve.low[at] <= rates) & (rates <= curve.high[at])).sum()
            low, high = pair_bootstrap(curve, at, rng)
            hits[f"pairs {name}"] += ((low <= rates) & (rates <= high)).sum()
    return {name: hit / (3 * runs) for name, hit in hits.items()}


def pair_bootstrap(
    curve: RateCurve, at: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Percentiles over resampled pairs, as if no two shared a person."""
    rates = curve.errors[at] / curve.trials
    draws = rng.binomial(curve.trials, rates, (200, len(at))) / curve.trials
    return tuple(np.quantile(draws, [0.025, 0.975], axis=0))


@pytest.mark.parametrize("name", MODELS)
def test_intervals_cover_in_a_hundred_runs(name: str) -> None:
    found = coverage(MODELS[name], 100, seed=1)
    assert 0.91 <= found["fmr"] <= 0.985
    assert 0.91 <= found["fnmr"] <= 0.985


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_intervals_cover_93_to_97_percent_of_300_runs(name: str) -> None:
    found = coverage(MODELS[name], 300, seed=2)
    print(name, found)
    assert 0.93 <= found["fmr"] <= 0.97
    assert 0.93 <= found["fnmr"] <= 0.97


@pytest.mark.slow
def test_intervals_of_d_prime_cover_93_to_97_percent_of_300_runs() -> None:
    model = MODELS["identity-correlated"]
    knots = np.linspace(-5, 8, 120)
    hits = 0
    for run in range(300):
        drawn = model.draw(PEOPLE, np.random.default_rng([4, run]))
        point = summarise(Sample.of(drawn[4], drawn[2]))
        found = bootstrap(count(drawn, knots, PEOPLE), knots, point, seed=run)["d_prime"]
        hits += found.low <= model.shift <= found.high
    print(hits / 300)
    assert 0.93 <= hits / 300 <= 0.97


def test_a_bootstrap_over_pairs_is_far_too_sure() -> None:
    """Why people are resampled: an interval over pairs misses the truth most of the time."""
    found = coverage(MODELS["identity-correlated"], 60, seed=3)
    assert found["pairs fmr"] < 0.3
    assert found["pairs fnmr"] < 0.9
    assert found["fmr"] > 0.9


def test_worth_is_the_dyadic_variance_summed_over_all_pairs_of_pairs() -> None:
    """Against the definition: residuals of any two pairs that share a person, multiplied."""
    rng = np.random.default_rng(8)
    people = 60
    first, second, hit = [], [], []
    lean = rng.normal(size=people)
    for a, b in combinations(range(people), 2):
        for _ in range(rng.integers(1, 3)):
            first.append(a)
            second.append(b)
            hit.append(lean[a] + lean[b] + rng.normal() > 0.8)
    first, second, hit = np.array(first), np.array(second), np.array(hit, float)
    counter = PersonCounter(people, 1, 1)
    counter.add_impostor(first, second, 0, hit.astype(int))
    curve = false_match_curve(counter.results()[0])

    rate = hit.mean()
    residual = hit - rate
    share = (
        (first[:, None] == first)
        | (first[:, None] == second)
        | (second[:, None] == first)
        | (second[:, None] == second)
    )
    same = (first[:, None] == first) & (second[:, None] == second)
    product = residual[:, None] * residual
    by_person = sum(residual[(first == p) | (second == p)].sum() ** 2 for p in range(people))
    unscaled = product[share].sum()
    assert unscaled == pytest.approx(by_person - product[same].sum())
    # The estimate scales the part over people by P / (P - 1), and shrinks by Student's t.
    variance = (by_person * people / (people - 1) - product[same].sum()) / len(hit) ** 2
    plain = rate * (1 - rate) / variance
    assert 0.6 * plain < curve.effective[0] <= plain
    assert plain < len(hit)


def test_no_errors_give_the_rule_of_three() -> None:
    low, high = interval(np.array([0.0]), np.array([1000.0]))
    assert low[0] == 0
    assert high[0] == pytest.approx(3 / 1000, rel=0.01)


def test_no_errors_count_people_and_not_pairs() -> None:
    """500 photos of 10 people have 112,500 stranger pairs and still prove next to nothing."""
    people, photos = 10, 50
    counter = PersonCounter(people, 1, 1)
    first, second = (np.repeat(side, photos**2) for side in np.triu_indices(people, 1))
    counter.add_impostor(first, second, 0, np.zeros(len(first), int))
    curve = false_match_curve(counter.results()[0])
    assert curve.trials == 112_500
    assert curve.effective[0] == pytest.approx(people / 2)
    assert curve.high[0] > 0.4


def test_interval_ends_are_monotone_in_the_score() -> None:
    model = MODELS["skewed"]
    knots = np.linspace(3, 35, 60)
    counts = count(model.draw(60, np.random.default_rng(4)), knots, 60)
    fmr, fnmr = false_match_curve(counts), false_non_match_curve(counts)
    for row in (fmr.low, fmr.high, fmr.errors):
        assert (np.diff(row) <= 0).all()
    for row in (fnmr.low, fnmr.high, fnmr.errors):
        assert (np.diff(row) >= 0).all()
    for curve in (fmr, fnmr):
        rate = curve.errors / curve.trials
        assert ((curve.low <= rate) & (rate <= curve.high)).all()
