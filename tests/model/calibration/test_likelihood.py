"""Likelihood ratios and extrapolated tails against distributions whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from model.calibration import Calibration
from model.calibration.likelihood import LikelihoodRatio, _cllr, fit_likelihood, reliability
from model.calibration.pairs.scores import Sample
from model.calibration.tail import Tail, fit_tail


def draw(seed: int, pairs: int = 60_000, shift: float = 3.0, spread: float = 1.0) -> Sample:
    rng = np.random.default_rng(seed)
    return Sample.of(rng.normal(shift, spread, pairs), rng.normal(0, 1, pairs))


KNOTS = np.linspace(-5, 9, 400)


@pytest.mark.parametrize("spread", [1.0, 0.6])
def test_ratios_are_those_of_the_two_densities(spread: float) -> None:
    """Of equal spreads the truth is a line; of unequal ones it is not, and isotonic must win."""
    learn, check = draw(1, spread=spread), draw(2, spread=spread)
    found = fit_likelihood(learn, check, (1 / 3e4, 3e4), KNOTS)
    scores = np.linspace(0.9, 2.6, 9)
    truth = stats.norm.pdf(scores, 3, spread) / stats.norm.pdf(scores, 0, 1)
    np.testing.assert_allclose(np.log10(found.at(scores)), np.log10(truth), atol=0.2)
    assert found.method == ("isotonic" if spread != 1 else found.method)
    assert found.cllr_min <= found.cllr <= found.cllr_min + 0.01


def test_cllr_is_its_definition_pair_by_pair() -> None:
    rng = np.random.default_rng(0)
    genuine, impostor = rng.normal(1, 1, 50), rng.normal(-1, 1, 70)
    sample = Sample.of(genuine, impostor)
    expected = 0.5 * (
        np.mean([np.log2(1 + 1 / 10**s) for s in genuine])
        + np.mean([np.log2(1 + 10**s) for s in impostor])
    )
    assert _cllr(sample, sample.values) == pytest.approx(expected)


def test_useless_scores_cost_what_a_coin_costs() -> None:
    found = fit_likelihood(draw(3, shift=0.0), draw(4, shift=0.0), (1 / 3e4, 3e4), KNOTS)
    assert found.cllr == pytest.approx(1, abs=0.01)
    assert np.abs(np.log10(found.at(np.linspace(-1.5, 1.5, 7)))).max() < 0.15


def test_no_ratio_is_bolder_than_the_sample() -> None:
    rng = np.random.default_rng(5)
    apart = Sample.of(rng.uniform(5, 6, 300), rng.uniform(0, 1, 3000))
    found = fit_likelihood(apart, apart, (1 / 50, 200.0), KNOTS)
    assert found.at(6.0) <= 200 * 1.01
    assert found.at(0.0) >= 1 / 50 / 1.01
    assert found.at(6.0) > 50


def test_provable_ratios_are_those_of_pairs_beyond_a_score() -> None:
    """With 400 pairs of one person above and 2,000 of strangers below, none between."""
    rng = np.random.default_rng(6)
    made = {"model_id": "m", "protocol": "simulated", "data_fingerprint": "f"}
    apart = Calibration.from_scores(rng.uniform(5, 6, 400), rng.uniform(0, 1, 2000), **made)
    none_of = {n: 1 - 0.05 ** (1 / n) for n in (400, 2000)}
    assert apart.likelihood_ratio(6) == pytest.approx((1 - none_of[400]) / none_of[2000], rel=0.02)
    assert apart.likelihood_ratio(0) == pytest.approx(none_of[400] / (1 - none_of[2000]), rel=0.02)


def test_a_few_strangers_at_the_top_forbid_a_large_ratio() -> None:
    rng = np.random.default_rng(7)
    same, apart = rng.normal(3, 1, 4000), np.r_[rng.normal(0, 1, 200_000), np.full(6, 9.0)]
    found = Calibration.from_scores(
        same, apart, model_id="m", protocol="simulated", data_fingerprint="f"
    )
    observed = max((same >= s).mean() / (apart >= s).mean() for s in np.linspace(0, 9, 200))
    assert 100 < found.likelihood_ratio(9) <= observed


def test_reliable_ratios_lie_on_the_diagonal_and_boasting_ones_do_not() -> None:
    check = draw(7)
    slope = 3 / np.log(10)
    honest = LikelihoodRatio((-5.0, 8.0), (-6.5 * slope, 6.5 * slope), "logistic", 0, 0)
    boasting = LikelihoodRatio((-5.0, 8.0), (-13 * slope, 13 * slope), "logistic", 0, 0)
    assert all(abs(row[0] - row[1]) < 0.25 for row in reliability(honest, check))
    assert any(abs(row[0] - row[1]) > 0.5 for row in reliability(boasting, check))
    assert len(reliability(honest, check)) >= 4


@pytest.mark.parametrize("law", [stats.norm(), stats.expon(), stats.beta(5, 9)])
def test_the_tail_reaches_beyond_the_sample(law) -> None:
    scores = law.rvs(300_000, random_state=8)
    tail = fit_tail(Sample.of(scores + 10, scores))
    start = law.isf(tail.rate)
    for rate in (1e-5, 1e-6):
        truth = law.isf(rate)
        assert tail.score_at(rate) - start == pytest.approx(truth - start, rel=0.3)


def test_tail_scores_rise_as_rates_fall_and_start_at_the_start() -> None:
    for shape in (-0.4, 0.0, 0.3):
        tail = Tail(0.4, 1e-3, 0.03, shape)
        scores = [tail.score_at(rate) for rate in (1e-3, 1e-4, 1e-6, 1e-9)]
        assert scores[0] == pytest.approx(0.4)
        assert scores == sorted(scores)
