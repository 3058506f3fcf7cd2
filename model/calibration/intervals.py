"""95% confidence intervals for error rates, over people instead of pairs.

Pairs that share a person are correlated, so a million pairs of a thousand people carry far less
information than a million independent trials. The variance used here is the limit of a bootstrap
over people, in closed form (no replicates, no seed):

* A same-person pair belongs to one person: the delete-one-person jackknife.
* A stranger pair belongs to two. Resampling people gives ``sum_i e_i^2``, where ``e_i`` is the sum
  of the residuals of person ``i``'s pairs. This counts the noise of each couple twice, once per
  member (the textbook bootstrap, which multiplies two weights, counts it three times), so it is
  subtracted once: the dyadic variance of Fafchamps & Gubert (2007) and Aronow, Samii & Assenova
  (2015).

The variance is converted to *effective* pairs: the number of independent pairs with the same
variance. The interval is the Jeffreys interval for that number (Korn & Graubard, 1998). Unlike a
percentile interval it stays valid with only a few errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Annotated

import numpy as np
from pydantic import PlainSerializer, PlainValidator
from scipy import special

from model.calibration.pairs.person_counts import PersonCounts
from model.types import Rate

LEVEL = 0.95

MIN_EFFECTIVE_ERRORS = 8.0
"""With fewer effective errors, the estimate of the variance is too noisy to use."""

MAX_PULL = 0.2
"""Limit of the skewness correction; its expansion does not hold beyond."""


def significant(values: np.ndarray, digits: int = 5) -> list[float]:
    """Round to significant digits, for a readable file."""
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, float)]


_AS_FLOATS = PlainValidator(partial(np.asarray, dtype=float))
_AS_COUNTS = PlainValidator(partial(np.asarray, dtype=np.int64))
Floats = Annotated[np.ndarray, _AS_FLOATS, PlainSerializer(np.ndarray.tolist)]
Counts = Annotated[np.ndarray, _AS_COUNTS, PlainSerializer(np.ndarray.tolist)]
Rounded = Annotated[np.ndarray, _AS_FLOATS, PlainSerializer(significant)]
"""Arrays in a file: as they are, as whole numbers, and to five digits."""


@dataclass(frozen=True, eq=False)
class RateCurve:
    """An error rate at each knot, with its interval.

    Attributes:
        errors: int64 ``(T,)`` pairs in error.
        low, high: ``(T,)`` ends of the 95% interval.
        effective: ``(T,)`` effective number of independent pairs at each knot.
    """

    errors: Counts
    trials: int
    low: Rounded
    high: Rounded
    effective: Rounded

    def at(self, knot: int) -> Rate:
        """Return the rate at one knot, as counted."""
        errors = int(self.errors[knot])
        return Rate(
            errors / self.trials if self.trials else float("nan"),
            float(self.low[knot]),
            float(self.high[knot]),
            errors,
            int(self.trials),
        )


def false_match_curve(counts: PersonCounts) -> RateCurve:
    """FMR at each knot: stranger pairs at or above it."""
    above = _at_or_above(counts.impostor)
    totals = counts.impostor.sum(axis=1)
    present = totals > 0
    above, totals = above[present].astype(float), totals[present].astype(float)
    people, pairs = len(totals), totals.sum() / 2
    errors = above.sum(axis=0) / 2
    if pairs == 0:
        return _empty(len(errors))
    rate = errors / pairs
    residuals = above - totals[:, None] * rate
    between = (residuals**2).sum(axis=0) * people / max(people - 1, 1)
    couples = (
        counts.couple_squares - 2 * rate * counts.couple_products + rate**2 * counts.couple_sizes
    )
    variance = np.maximum(between - couples, couples) / pairs**2
    freedom = _freedom(residuals)
    effective = _effective(rate, variance, freedom, limit=pairs)
    # The tail has too few errors: reuse the effective size from the last knot with enough.
    effective = _carry(effective, rate, _kish(totals) / 2)
    return _curve(errors, pairs, rate, effective, _skew(residuals))


def false_non_match_curve(counts: PersonCounts) -> RateCurve:
    """FNMR at each knot: same-person pairs below it."""
    totals = counts.genuine.sum(axis=1)
    below = totals[:, None] - _at_or_above(counts.genuine)
    present = totals > 0
    below, totals = below[present].astype(float), totals[present].astype(float)
    people, pairs = len(totals), totals.sum()
    errors = below.sum(axis=0)
    if pairs == 0:
        return _empty(len(errors))
    rate = errors / pairs
    share = np.minimum(totals / pairs, 0.99)
    residuals = (below - totals[:, None] * rate) / (1 - share)[:, None]
    variance = (residuals**2).sum(axis=0) * max(people - 1, 1) / people / pairs**2
    effective = _effective(rate, variance, _freedom(residuals), limit=pairs)
    effective = _carry(effective, rate, _kish(totals))
    return _curve(errors, pairs, rate, effective, _skew(residuals))


def independent_curve(errors: np.ndarray, trials: int) -> RateCurve:
    """Make a curve that assumes independent pairs, for when the people are unknown."""
    errors = np.asarray(errors, np.int64)
    if trials == 0:
        return _empty(len(errors))
    return _curve(errors, trials, errors / trials, np.full(len(errors), float(trials)))


def interval(
    rate: np.ndarray, effective: np.ndarray, skew: np.ndarray | float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Jeffreys interval for ``effective`` independent pairs; the rule of three with no errors.

    Args:
        rate: ``(T,)`` measured rates.
        effective: ``(T,)`` effective number of independent pairs.
        skew: ``(T,)`` skewness of the estimate over people. Skewness in excess of that of as many
            independent pairs shifts both ends, as in Efron's BCa bootstrap.

    Returns:
        ``(T,)`` low and high ends.
    """
    rate, effective = np.broadcast_arrays(np.asarray(rate, float), np.asarray(effective, float))
    errors, hits = rate * effective, (1 - rate) * effective
    inside = (rate > 0) & (rate < 1)
    spread = np.sqrt(np.where(inside, errors * (1 - rate), 1.0))
    own = (1 - 2 * rate) / spread
    excess = np.sign(skew) * np.maximum(np.abs(skew) - np.abs(own), 0)
    pull = np.where(inside, np.clip(excess / 6, -MAX_PULL, MAX_PULL), 0)
    quantile = special.ndtri((1 + LEVEL) / 2)
    low, high = (
        special.betaincinv(
            errors + 0.5, hits + 0.5, special.ndtr(pull + (pull + z) / (1 - pull * (pull + z)))
        )
        for z in (-quantile, quantile)
    )
    exact = 1 - (1 - LEVEL) ** (1 / np.maximum(effective, 1))
    low = np.where(rate <= 0, 0.0, np.where(rate >= 1, 1 - exact, low))
    high = np.where(rate >= 1, 1.0, np.where(rate <= 0, exact, high))
    return np.minimum(low, rate), np.maximum(high, rate)


def _at_or_above(counts: np.ndarray) -> np.ndarray:
    """Convert bin counts ``(P, T + 1)`` to counts at or above each knot ``(P, T)``."""
    return counts[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]


def _freedom(residuals: np.ndarray) -> np.ndarray:
    """Degrees of freedom of the variance, in people (Satterthwaite); at least one."""
    squares = residuals**2
    fourth = (squares**2).sum(axis=0)
    return np.where(fourth > 0, squares.sum(axis=0) ** 2 / np.where(fourth > 0, fourth, 1), 1.0)


def _skew(residuals: np.ndarray) -> np.ndarray:
    """Skewness of the sum of these residuals over people."""
    spread = (residuals**2).sum(axis=0) ** 1.5
    return (residuals**3).sum(axis=0) / np.where(spread > 0, spread, 1)


def _effective(
    rate: np.ndarray, variance: np.ndarray, freedom: np.ndarray, limit: float
) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        worth = rate * (1 - rate) / variance
    tail = (1 + LEVEL) / 2
    shrink = (special.ndtri(tail) / special.stdtrit(np.maximum(freedom, 1), tail)) ** 2
    return np.clip(np.nan_to_num(worth * shrink, nan=0.0, posinf=limit), 1.0, limit)


def _carry(effective: np.ndarray, rate: np.ndarray, floor: float) -> np.ndarray:
    """Extend the effective size from the outermost knots with enough errors to those beyond.

    Args:
        effective: ``(T,)`` effective pairs as measured.
        rate: ``(T,)`` monotone.
        floor: Lower bound of the effective pairs. Pairs that share nobody are independent, and
            ``P`` people make ``P / 2`` of them (Hoeffding, 1963). Same-person pairs count at
            least once per person.
    """
    floor = max(floor, 1.0)
    enough = np.flatnonzero(np.minimum(rate, 1 - rate) * effective >= MIN_EFFECTIVE_ERRORS)
    if len(enough) == 0:
        return np.full_like(effective, floor)
    carried = effective.copy()
    carried[: enough[0]] = max(effective[enough[0]], floor)
    carried[enough[-1] + 1 :] = max(effective[enough[-1]], floor)
    return carried


def _kish(sizes: np.ndarray) -> float:
    """Kish's effective number of people, given the pairs of each."""
    return float(sizes.sum() ** 2 / (sizes**2).sum())


def _curve(
    errors: np.ndarray,
    pairs: float,
    rate: np.ndarray,
    worth: np.ndarray,
    skew: np.ndarray | float = 0.0,
) -> RateCurve:
    low, high = interval(rate, worth, skew)
    # The rate is monotone in the score, so its interval must be too; where noise breaks this,
    # keep the wider end.
    falling = rate[0] >= rate[-1]
    if not falling:
        low, high = low[::-1], high[::-1]
    low, high = np.minimum.accumulate(low), np.maximum.accumulate(high[::-1])[::-1]
    if not falling:
        low, high = low[::-1], high[::-1]
    return RateCurve(np.rint(errors).astype(np.int64), int(pairs), low, high, worth)


def _empty(knots: int) -> RateCurve:
    return RateCurve(np.zeros(knots, np.int64), 0, np.zeros(knots), np.ones(knots), np.zeros(knots))
