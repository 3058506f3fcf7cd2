"""Summary statistics of the two distributions, with bootstrap intervals over people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.special import ndtr

from model.calibration.intervals import false_match_curve, false_non_match_curve
from model.calibration.pairs.person_counts import PersonCounts
from model.calibration.pairs.scores import Sample
from model.calibration.types import ErrorCurves, Estimate, Spread, Summary
from model.errors import CalibrationError

REPLICATES = 400


def summarise(sample: Sample) -> Summary:
    """Compute the summary of one sample, without intervals."""
    genuine, impostor = (_spread(sample.values, n) for n in (sample.genuine, sample.impostor))
    pooled = np.sqrt((genuine.std**2 + impostor.std**2) / 2)
    if pooled == 0:
        raise CalibrationError("All scores are equal; there is nothing to calibrate.")
    d_prime = float((genuine.mean - impostor.mean) / pooled)
    eer, eer_threshold = equal_error(sample)
    spreads = genuine.std + impostor.std
    return Summary(
        d_prime=Estimate(d_prime, d_prime, d_prime),
        eer=Estimate(eer, eer, eer),
        eer_threshold=eer_threshold,
        genuine=genuine,
        impostor=impostor,
        gaussian_eer=float(ndtr((impostor.mean - genuine.mean) / spreads)),
        gaussian_threshold=(genuine.mean * impostor.std + impostor.mean * genuine.std) / spreads,
    )


def error_curves(counts: PersonCounts) -> ErrorCurves:
    """Compute both error rates of one population, with intervals over people."""
    return ErrorCurves(false_match_curve(counts), false_non_match_curve(counts))


def equal_error(sample: Sample) -> tuple[float, float]:
    """EER and its threshold, by the rule of the FVC competitions (Maio et al., 2002)."""
    fmr = sample.false_matches / sample.impostor.sum()
    fnmr = sample.false_non_matches / sample.genuine.sum()
    crossed = np.flatnonzero(fmr <= fnmr)
    after = int(crossed[0]) if len(crossed) else len(fmr) - 1
    before = after - 1 if after > 0 and fmr[after] != fnmr[after] else after
    best = before if fmr[before] + fnmr[before] <= fmr[after] + fnmr[after] else after
    return float(fmr[best] + fnmr[best]) / 2, float(sample.values[best])


def bootstrap(counts: PersonCounts, knots: np.ndarray, summary: Summary, seed: int) -> Summary:
    rng = np.random.default_rng(seed)
    people = len(counts.genuine)
    draws = rng.multinomial(people, np.full(people, 1 / people), REPLICATES).astype(np.float32)

    def pairs(weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        genuine = (weights @ counts.genuine.astype(np.float32)).astype(float)
        # A pair's weight is the sum over its two people: 1 + (w - 1) + (v - 1).
        impostor = (weights @ counts.impostor.astype(np.float32)).astype(float)
        return genuine, impostor - counts.impostor.sum(axis=0) / 2

    return _intervals(summary, knots, pairs(np.ones((1, people), np.float32)), pairs(draws))


def bootstrap_pairs(sample: Sample, knots: np.ndarray, summary: Summary, seed: int) -> Summary:
    """Bootstrap intervals of d' and EER over pairs, as if all were independent."""
    rng = np.random.default_rng(seed)
    bins = np.searchsorted(knots, sample.values, side="right")
    sides = [
        np.bincount(bins, weights=side, minlength=len(knots) + 1)
        for side in (sample.genuine, sample.impostor)
    ]
    draws = [rng.multinomial(int(side.sum()), side / side.sum(), REPLICATES) for side in sides]
    return _intervals(summary, knots, [side[None] for side in sides], draws)


def _intervals(
    summary: Summary,
    knots: np.ndarray,
    whole: Sequence[np.ndarray],
    draws: Sequence[np.ndarray],
) -> Summary:
    """Add intervals from pair counts per bin: whole ``(1, bins)`` and drawn ``(R, bins)``.

    Bins are coarse, so only the difference between draws and whole is added to the exact value.
    """
    middles = np.r_[knots[0], (knots[:-1] + knots[1:]) / 2, knots[-1]]
    d_prime, eer = summary.d_prime.value, summary.eer.value
    difference = d_primes(draws[0], draws[1], middles) - d_primes(whole[0], whole[1], middles)
    errors = (eer + equal_errors(*draws) - equal_errors(*whole)).clip(0, 1)

    def estimate(point: float, drawn: np.ndarray) -> Estimate:
        low, high = np.nanquantile(drawn, [0.025, 0.975])
        return Estimate(point, min(float(low), point), max(float(high), point))

    return replace(
        summary, d_prime=estimate(d_prime, d_prime + difference), eer=estimate(eer, errors)
    )


def d_primes(genuine: np.ndarray, impostor: np.ndarray, scores: np.ndarray) -> np.ndarray:
    """d' of many samples ``(R, bins)``, counted at ``scores``; NaN if the spread is zero."""
    means, variances = [], []
    with np.errstate(invalid="ignore", divide="ignore"):
        for counts in (genuine, impostor):
            total = counts.sum(axis=1)
            means.append(counts @ scores / total)
            squares = (scores - means[-1][:, None]) ** 2
            variances.append((counts * squares).sum(axis=1) / total)
        # Additive weights can make the variance of a replicate of very few people zero or less.
        pooled = np.sqrt(np.maximum(sum(variances) / 2, 0))
        return np.where(pooled > 0, (means[0] - means[1]) / pooled, np.nan)


def equal_errors(genuine: np.ndarray, impostor: np.ndarray) -> np.ndarray:
    """EER of many samples ``(R, bins)``, interpolated between bins; NaN for empty samples."""
    # Include a threshold below and one above all bins, so that the two rates always cross.
    below = np.zeros((len(genuine), 1))
    with np.errstate(invalid="ignore", divide="ignore"):
        fnmr = np.hstack([below, genuine.cumsum(axis=1)]) / genuine.sum(axis=1, keepdims=True)
        fmr = 1 - np.hstack([below, impostor.cumsum(axis=1)]) / impostor.sum(axis=1, keepdims=True)
    after = np.argmax(fmr <= fnmr, axis=1).clip(1)
    rows = np.arange(len(after))
    gap = [fmr[rows, at] - fnmr[rows, at] for at in (after - 1, after)]
    share = np.divide(gap[0], gap[0] - gap[1], out=np.full(len(after), 0.5), where=gap[0] != gap[1])
    return (1 - share) * fmr[rows, after - 1] + share * fmr[rows, after]


def _spread(values: np.ndarray, counts: np.ndarray) -> Spread:
    mean = float(np.average(values, weights=counts))
    centred = values - mean
    variance = float(np.average(centred**2, weights=counts))
    third = float(np.average(centred**3, weights=counts))
    return Spread(mean, variance**0.5, third / variance**1.5 if variance > 0 else 0.0)
