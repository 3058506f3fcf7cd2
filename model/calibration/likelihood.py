"""Map scores to likelihood ratios: how much likelier a score is for one person than for two.

The map never falls as the score rises. It is learnt on one half of the people and evaluated on
the other by Cllr (Brümmer & du Preez, 2006): 0 is perfect, 1 carries no information.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.intervals import RateCurve
from model.calibration.pairs.scores import Sample


@dataclass(frozen=True)
class LikelihoodRatio:
    """A rising, piecewise linear map from score to ``log10`` of the likelihood ratio.

    Attributes:
        scores: Ascending scores.
        log10: ``log10`` of the likelihood ratio at each; constant beyond both ends.
        method: ``isotonic`` or ``logistic``, whichever did better on the other half.
        cllr: Cost of the map on the other half.
        cllr_min: Lowest cost that any rising map could have there.
    """

    scores: tuple[float, ...]
    log10: tuple[float, ...]
    method: str
    cllr: float
    cllr_min: float

    def at(self, score: float | np.ndarray) -> np.ndarray:
        return np.asarray(10.0 ** np.interp(score, self.scores, self.log10))


def provable_ratios(fmr: RateCurve, fnmr: RateCurve) -> tuple[float, float]:
    """Return the smallest and largest likelihood ratio that the intervals support.

    The ratio of "this score or higher" is the fraction of same-person pairs there, divided by the
    fraction of stranger pairs; likewise for "below this score". A score may be stronger evidence
    than any of these, but the sample cannot show it.
    """
    lower = fnmr.high / np.maximum(1 - fmr.high, 1e-12)
    upper = (1 - fnmr.high) / fmr.high
    return min(1.0, float(lower.min())), max(1.0, float(upper.max()))


def fit_likelihood(
    learn: Sample, check: Sample, bounds: tuple[float, float], knots: np.ndarray
) -> LikelihoodRatio:
    """Learn a map on one sample of pairs and evaluate it on another.

    Args:
        bounds: Smallest and largest ratio allowed; see :func:`provable_ratios`.
        knots: Ascending scores that bound the bins of both samples.
    """
    learn, check = _binned(learn, knots), _binned(check, knots)
    limits = np.log10(bounds)
    maps = {
        method: (scores, np.clip(log10, *limits))
        for method, (scores, log10) in {
            "isotonic": _isotonic(learn),
            "logistic": _logistic(learn),
        }.items()
    }
    costs = {name: _cllr(check, np.interp(check.values, *curve)) for name, curve in maps.items()}
    method = min(costs, key=costs.__getitem__)
    best = _isotonic(check, step=True)
    scores, log10 = maps[method]
    return LikelihoodRatio(
        tuple(np.round(scores, 7).tolist()),
        tuple(np.round(log10, 5).tolist()),
        method,
        round(costs[method], 6),
        round(_cllr(check, best[1]), 6),
    )


def reliability(
    ratio: LikelihoodRatio, check: Sample, bins: int = 16, least: int = 10
) -> list[tuple[float, float, int, int]]:
    """Compare predicted with observed ratios on ``check``, in groups of similar prediction.

    Groups are merged upwards until each holds ``least`` pairs of both kinds; fewer give no
    observed ratio. A group's prediction is the share of same-person pairs that its ratios predict
    at even odds, converted back to a ratio.

    Returns:
        ``(predicted log10 ratio, observed log10 ratio, same-person pairs, stranger pairs)`` of
        each group, ascending.
    """
    promised = np.log10(ratio.at(check.values))
    edges = np.linspace(promised[0], promised[-1], bins + 1)[1:-1]
    group = np.searchsorted(edges, promised, side="right")
    shares = check.genuine / check.genuine.sum(), check.impostor / check.impostor.sum()
    rows, start = [], 0
    for stop in [*np.searchsorted(group, np.arange(1, bins)), len(group)]:
        same, apart = (int(n[start:stop].sum()) for n in (check.genuine, check.impostor))
        if same >= least and apart >= least:
            genuine, impostor = (part[start:stop] for part in shares)
            share = 1 / (1 + 10.0 ** -promised[start:stop])
            foretold = np.average(share, weights=genuine + impostor)
            centre = float(np.log10(foretold / (1 - foretold)))
            observed = float(np.log10(genuine.sum() / impostor.sum()))
            rows.append((centre, observed, same, apart))
            start = int(stop)
    return rows


def _binned(sample: Sample, knots: np.ndarray) -> Sample:
    """Move every score of a sample to the middle of its bin."""
    place = np.searchsorted(knots, sample.values, side="right")
    middles = np.r_[knots[0], (knots[:-1] + knots[1:]) / 2, knots[-1]]
    genuine, impostor = (
        np.bincount(place, counts, len(knots) + 1) for counts in (sample.genuine, sample.impostor)
    )
    used = genuine + impostor > 0
    values, at = np.unique(middles[used], return_inverse=True)
    return Sample(values, np.bincount(at, genuine[used]), np.bincount(at, impostor[used]))


def _isotonic(sample: Sample, step: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Pool adjacent violators on the balanced share of same-person pairs."""
    genuine = sample.genuine / sample.genuine.sum()
    impostor = sample.impostor / sample.impostor.sum()
    weight = genuine + impostor
    from scipy.optimize import isotonic_regression  # takes 0.5 s; only fitting needs it

    fitted = isotonic_regression(genuine / weight, weights=weight).x
    fitted = np.clip(fitted, 1e-12, 1 - 1e-12)
    log10 = np.log10(fitted / (1 - fitted))
    if step:
        return sample.values, log10
    _, starts, block = np.unique(log10, return_index=True, return_inverse=True)
    centres = np.bincount(block, weight * sample.values) / np.bincount(block, weight)
    return centres, log10[starts]


def _logistic(sample: Sample) -> tuple[np.ndarray, np.ndarray]:
    """Logistic regression: a straight line in log-odds."""
    genuine = sample.genuine / sample.genuine.sum()
    impostor = sample.impostor / sample.impostor.sum()
    weight = genuine + impostor
    centre = np.average(sample.values, weights=weight)
    spread = np.sqrt(np.average((sample.values - centre) ** 2, weights=weight)) or 1.0
    place = (sample.values - centre) / spread

    def cost(line: np.ndarray) -> tuple[float, np.ndarray]:
        odds = line[0] + line[1] * place
        value = genuine @ np.logaddexp(0, -odds) + impostor @ np.logaddexp(0, odds)
        slope = impostor / (1 + np.exp(-odds)) - genuine / (1 + np.exp(odds))
        return float(value), np.array([slope.sum(), slope @ place])

    from scipy.optimize import minimize

    found = minimize(cost, np.array([0.0, 1.0]), jac=True, bounds=[(None, None), (0, None)])
    return sample.values, (found.x[0] + found.x[1] * place) / np.log(10)


def _cllr(sample: Sample, log10: np.ndarray) -> float:
    odds = log10 * np.log(10)
    genuine = np.average(np.logaddexp(0, -odds), weights=sample.genuine)
    impostor = np.average(np.logaddexp(0, odds), weights=sample.impostor)
    return float((genuine + impostor) / 2 / np.log(2))
