"""Adapt a shipped calibration to the scores of a few of the user's own people.

Twenty people are too few to measure a false-match rate of 1 in 1,000, but enough to locate the two
score distributions. Their means and spreads are estimated, and the shipped curves are shifted and
scaled to match. The tails keep the shape measured on thousands of people.

Three rules make this conservative. They come from tests on people of CelebA and Families In the
Wild who were not trained on (table in training/README.md):

- The spread of impostor scores is the fourth-power mean above their mean. The standard deviation
  does not show a longer tail.
- A threshold is the upper end of its interval.
- A threshold never falls below the shipped one: a few people cannot prove a lower false-match rate.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from model.calibration.calibration import Calibration
from model.calibration.files import decode, encode
from model.calibration.intervals import RateCurve
from model.calibration.likelihood import LikelihoodRatio
from model.calibration.types import ErrorCurves, Estimate, Parts, Threshold
from model.calibration.warnings import calibration_warnings
from model.errors import CalibrationError
from model.wording import one_in

REPLICATES = 400
MIN_PEOPLE = 10

POWER = 4
"""Power of the distances above the mean in the spread of impostor scores."""

TESTED_DOWN_TO = 1e-4
"""The smallest target that was tested on other people."""


@dataclass(frozen=True)
class MovedThreshold:
    """One target's threshold, adapted to the user's photos.

    Attributes:
        moved: The adapted threshold with its expected rates.
        distance: Distance from the user's impostor mean, in pooled standard deviations (the unit
            of d'), with the 95% interval before the two rules for thresholds are applied.
    """

    shipped: Threshold
    moved: Threshold
    distance: Estimate


@dataclass(frozen=True, eq=False)
class Adapted:
    calibration: Calibration
    thresholds: tuple[MovedThreshold, ...]


@dataclass(frozen=True, eq=False)
class _Moves:
    """Maps scores of one distribution: ``mean + (score - old mean) * spread / old spread``.

    Attributes:
        old_mean, old_spread: Mean and spread of the shipped distribution.
        means, spreads: ``(R,)`` bootstrap replicates for the user's people.
    """

    old_mean: float
    old_spread: float
    means: np.ndarray
    spreads: np.ndarray

    def at(self, scores: np.ndarray, quantile: float) -> np.ndarray:
        distance = (np.atleast_1d(scores) - self.old_mean) / self.old_spread
        moved = self.means[:, None] + self.spreads[:, None] * distance
        return np.quantile(moved, quantile, axis=0)


def adapt(
    calibration: Calibration,
    embeddings: np.ndarray,
    labels: np.ndarray,
    *,
    data_fingerprint: str,
    seed: int = 0,
) -> Adapted:
    """Adapt a calibration to photos of a few people the model was not trained on.

    Args:
        embeddings: float32 ``(N, D)`` unit vectors of its model.
        labels: int ``(N,)``, equal for photos of one person.

    Raises:
        CalibrationError: There are fewer than `MIN_PEOPLE` people, or too few with two photos.
    """
    people = len(np.unique(labels))
    if people < MIN_PEOPLE:
        raise CalibrationError(
            f"{people} people are too few to adapt a calibration. It takes {MIN_PEOPLE} with two "
            "photos each; 20 to 50 are better."
        )
    own = Calibration.fit(
        embeddings, labels, model_id=calibration.model_id, protocol="own photos",
        data_fingerprint=data_fingerprint, seed=seed, max_photos=None,
    )  # fmt: skip
    strangers, genuine = _resampled(np.asarray(embeddings, float), labels, calibration, seed)
    moved = replace(
        calibration,
        parts=_moved_parts(calibration.parts, own, strangers, genuine),
        protocol=f"moved to {people:,} own people ({len(labels):,} photos) from: "
        f"{calibration.protocol}",
        data_fingerprint=data_fingerprint,
        created=own.created,
        photos=len(labels),
    )
    caution = (
        f"Rates are not measured on these {people:,} people but moved to them. Whether they hold "
        f"was tried on other collections, down to {one_in(TESTED_DOWN_TO)} strangers."
    )
    moved = replace(moved, warnings=(caution, *calibration_warnings(moved)))
    pairs = zip(calibration.targets, moved.targets, strict=True)
    return Adapted(moved, tuple(_in_units(*pair, strangers, own) for pair in pairs))


def _moved_parts(parts: Parts, own: Calibration, strangers: _Moves, genuine: _Moves) -> Parts:
    upper = np.maximum(parts.scores, strangers.at(parts.scores, 0.975))
    lower = np.minimum(upper, strangers.at(parts.scores, 0.025))
    missed = [genuine.at(parts.scores, quantile) for quantile in (0.5, 0.975, 0.025)]
    unmoved_knots = parts.scores if parts.further else ()
    scores = np.unique(np.r_[upper, missed[0], unmoved_knots])

    def curves(old: ErrorCurves) -> ErrorCurves:
        return ErrorCurves(
            _moved(old.fmr, scores, upper, lower, upper), _moved(old.fnmr, scores, *missed)
        )

    at = np.searchsorted(parts.scores, scores, side="right").clip(1) - 1

    def unmoved(old: RateCurve) -> RateCurve:
        rows = (row[at] for row in (old.low, old.high, old.effective))
        return RateCurve(old.errors[at], old.trials, *rows)

    ends = np.array([parts.tail.start, parts.tail.start + parts.tail.scale])
    start, further = np.maximum(ends, strangers.at(ends, 0.975))
    moved = replace(
        parts,
        scores=scores,
        fit=curves(parts.fit),
        held_out=curves(parts.held_out),
        everyone=curves(parts.everyone),
        summary=own.summary,
        likelihood=_moved_ratio(parts.likelihood, parts.scores, upper),
        tail=replace(parts.tail, start=float(start), scale=float(further - start)),
        histograms=own.histograms,
        quality=tuple(replace(each, **vars(curves(each))) for each in parts.quality),
        groups=(),
        kinds=(),
        further=tuple(
            replace(each, fit=unmoved(each.fit), held_out=unmoved(each.held_out))
            for each in parts.further
        ),
    )
    # Encode and decode, so that these values equal those loaded from the file later.
    return decode(encode(moved))


def _resampled(
    vectors: np.ndarray, labels: np.ndarray, calibration: Calibration, seed: int
) -> tuple[_Moves, _Moves]:
    """Bootstrap the means and spreads of both distributions over people."""
    person = np.unique(labels, return_inverse=True)[1]
    people = int(person.max()) + 1
    member = np.eye(people)[person]
    scores = vectors @ vectors.T
    pairs = 1.0 - np.eye(len(person))
    apart = 1.0 - np.eye(people)
    draws = np.random.default_rng(seed).multinomial(people, np.full(people, 1 / people), REPLICATES)
    weights = draws[(draws > 0).sum(axis=1) > 1].astype(float)

    def by_people(values: np.ndarray) -> np.ndarray:
        return member.T @ (values * pairs) @ member

    def of_strangers(values: np.ndarray) -> np.ndarray:
        return ((weights @ (by_people(values) * apart)) * weights).sum(axis=1)

    def of_one(values: np.ndarray) -> np.ndarray:
        return weights @ np.diag(by_people(values))

    strangers = of_strangers(pairs)
    centre = float((by_people(scores) * apart).sum() / (by_people(pairs) * apart).sum())
    means = of_strangers(scores) / strangers
    above = of_strangers(_above(scores, centre)) / strangers
    genuine = of_one(pairs)
    some = genuine > 0
    mates = of_one(scores)[some] / genuine[some]
    spread = of_one(scores**2)[some] / genuine[some] - mates**2
    summary, shown = calibration.summary, calibration.histograms
    middles = (np.array(shown.edges[1:]) + np.array(shown.edges[:-1])) / 2
    before = np.average(_above(middles, summary.impostor.mean), weights=shown.impostor)
    return (
        _Moves(summary.impostor.mean, before ** (1 / POWER), means, above ** (1 / POWER)),
        _Moves(summary.genuine.mean, summary.genuine.std, mates, np.sqrt(spread.clip(1e-8))),
    )


def _above(scores: np.ndarray, centre: float) -> np.ndarray:
    """Distances above ``centre`` to the power `POWER`; 0 below it."""
    return np.maximum(scores - centre, 0.0) ** POWER


def _moved(
    curve: RateCurve, scores: np.ndarray, middle: np.ndarray, low: np.ndarray, high: np.ndarray
) -> RateCurve:
    """Move a curve's knots to ``middle`` and its interval ends to ``low`` and ``high``."""
    errors, worth = (np.interp(scores, middle, row) for row in (curve.errors, curve.effective))
    rate = errors / max(curve.trials, 1)
    return RateCurve(
        np.rint(errors).astype(np.int64),
        curve.trials,
        np.minimum(np.interp(scores, low, curve.low), rate),
        np.maximum(np.interp(scores, high, curve.high), rate),
        worth,
    )


def _moved_ratio(ratio: LikelihoodRatio, knots: np.ndarray, moved: np.ndarray) -> LikelihoodRatio:
    """Move the likelihood ratio's scores like the impostor scores."""
    places = np.interp(ratio.scores, knots, moved)
    return replace(ratio, scores=tuple(places.tolist()))


def _in_units(
    shipped: Threshold, moved: Threshold, strangers: _Moves, own: Calibration
) -> MovedThreshold:
    summary = own.summary
    pooled = ((summary.genuine.std**2 + summary.impostor.std**2) / 2) ** 0.5
    low, high = (
        float(strangers.at(np.array([shipped.threshold]), end)[0]) for end in (0.025, 0.975)
    )
    value, low, high = (
        (score - summary.impostor.mean) / pooled for score in (moved.threshold, low, high)
    )
    return MovedThreshold(shipped, moved, Estimate(value, low, high))
