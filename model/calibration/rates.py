"""Measured error rates at any score or threshold."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from model.calibration.intervals import RateCurve
from model.calibration.types import (
    TARGETS,
    ErrorCurves,
    GroupRates,
    Histograms,
    KindRates,
    Parts,
    QualityBin,
    SearchThreshold,
    Summary,
    Threshold,
)
from model.errors import CalibrationError
from model.types import Rate

CERTAIN_ERRORS = 3.0
"""With no error in ``n`` independent trials the rate is below ``3 / n`` at 95% confidence."""

CAUTION_ERRORS = 30.0
"""Fewest effective errors at which thresholds get a safety margin. The margin then costs at most a
third of the target, and less with more errors."""

MOST_DECADES = 100
"""Largest ``log10`` of a likelihood ratio that a stored calibration may have, either way."""

UNUSABLE = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a calibration of a stranger may raise: any of its fields may hold anything."""


@dataclass(frozen=True, eq=False)
class Rates:
    """Error rates at any score, and scores for any error rate."""

    parts: Parts = field(repr=False)

    def check_parts(self) -> None:
        """Raise `CalibrationError` unless the parts fit together and answer what they are asked."""
        try:
            self._try_parts()
        except UNUSABLE as error:
            raise CalibrationError(
                f"The calibration cannot be used: {error}. Calibrate again."
            ) from error

    def _try_parts(self) -> None:
        parts, knots = self.parts, self.parts.scores.shape
        populations = parts.fit, parts.held_out, parts.everyone, *parts.quality
        curves = [curve for both in populations for curve in (both.fmr, both.fnmr)]
        curves += [curve for each in parts.further for curve in (each.fit, each.held_out)]
        for curve in curves:
            rows = curve.errors, curve.low, curve.high, curve.effective
            if len(knots) != 1 or any(row.shape != knots for row in rows):
                raise ValueError("the rows of an error curve are not as long as the scores")
            if curve.trials and np.isnan([curve.low, curve.high, curve.effective]).any():
                raise ValueError("a rate of an error curve is not a number")
        if not np.isfinite(parts.scores).all():
            raise ValueError("a score is not a finite number")
        for quality in (None, *(b.low for b in parts.quality)):
            for target in TARGETS:
                self.limits(target, target, quality)
        if not (np.abs(parts.likelihood.log10) <= MOST_DECADES).all():
            raise ValueError("a likelihood ratio is beyond what any sample can show")
        self.likelihood_ratio(parts.scores[0])

    def fmr_at(self, score: float, quality: float | None = None) -> Rate:
        """Share of stranger pairs that score at least this high, in the worst collection."""
        curves = self._curves(quality).fmr, *(each.held_out for each in self.parts.further)
        return max((self._rate_at(curve, score) for curve in curves), key=lambda rate: rate.value)

    def fnmr_at(self, score: float, quality: float | None = None) -> Rate:
        """Share of same-person pairs that score below this."""
        return self._rate_at(self._curves(quality).fnmr, score)

    def likelihood_ratio(self, score: float) -> float:
        """Return how many times likelier this score is for one person than for two."""
        return float(self.parts.likelihood.at(score))

    def false_match_chance(self, score: float, gallery_size: int) -> Rate:
        """Chance that any of ``gallery_size`` strangers scores at least this high."""
        return _any_of(self.fmr_at(score), gallery_size)

    @cached_property
    def targets(self) -> tuple[Threshold, ...]:
        return tuple(self.threshold(target) for target in TARGETS)

    def threshold(self, target_fmr: float) -> Threshold:
        """Return the lowest score whose false-match rate is within ``target_fmr`` on the fit half.

        If the sample is large enough (`CAUTION_ERRORS`), the upper end of the rate's interval must
        be within the target. The rate must also be within it in each further collection, or within
        the smallest rate that can be measured there.
        """
        if not 0 < target_fmr < 1:
            raise ValueError(f"target_fmr is {target_fmr}; it must lie between 0 and 1")
        fit, measured = self.parts.fit.fmr, self.parts.held_out
        reached = np.flatnonzero(fit.errors <= target_fmr * fit.trials * (1 + 1e-9))
        # A photo labelled as two people scores 1; then no threshold reaches a small target.
        knot = int(reached[0]) if len(reached) else len(fit.errors) - 1
        further = (_first_within(each.fit, target_fmr) for each in self.parts.further)
        knot = max(knot, self._cautious_knot(target_fmr), *further)
        score = float(self.parts.scores[knot])
        lowest_target, highest_score = self._measured_down_to
        if target_fmr >= lowest_target:
            supported = bool(len(reached) and target_fmr * self._worth[knot] >= CERTAIN_ERRORS)
            rates = measured.fmr.at(knot), measured.fnmr.at(knot)
            return Threshold(target_fmr, score, *rates, supported, extrapolated=False)
        # Not below any measured threshold, or a stricter target could accept more.
        score = max(self.parts.tail.score_at(target_fmr), highest_score, score)
        rates = self._rate_at(measured.fmr, score), self._rate_at(measured.fnmr, score)
        return Threshold(target_fmr, score, *rates, supported=False, extrapolated=True)

    def limits(
        self, target_fmr: float, target_fnmr: float, quality: float | None = None
    ) -> tuple[float, float]:
        """Return the scores to accept from and to reject below, for photos of this quality.

        If photos of this quality cause more errors than promised, the two move apart.
        """
        accept, reject = self.threshold(target_fmr).threshold, self._reject_below(target_fnmr)
        bin_ = self._quality_bin(quality)
        if bin_ is not None:
            calm = np.flatnonzero(bin_.fmr.low <= target_fmr)
            # A photo labelled as two people scores 1; then only the last knot is within the target.
            accept = max(accept, float(self.parts.scores[calm[0] if len(calm) else -1]))
            kept = np.flatnonzero(bin_.fnmr.low <= target_fnmr)
            reject = min(reject, float(self.parts.scores[kept[-1]]))
        return accept, min(reject, accept)

    def search_threshold(self, gallery_size: int, target_fpir: float) -> SearchThreshold:
        """Return the threshold for a search among ``gallery_size`` people.

        A search compares an unknown person with that many strangers. Treating the comparisons as
        independent gives the false-match rate allowed for each. This is conservative: the false
        matches of people who resemble many others concentrate in fewer searches.

        Args:
            gallery_size: People in the gallery, at least 1.
            target_fpir: Probability of any match for a person who is not in the gallery.
        """
        if gallery_size < 1 or not 0 < target_fpir < 1:
            raise ValueError(
                f"gallery_size is {gallery_size}, target_fpir {target_fpir}; they must be at "
                "least 1 and between 0 and 1"
            )
        target = -math.expm1(math.log1p(-target_fpir) / gallery_size)
        found = self.threshold(target)
        values = {name: getattr(found, name) for name in Threshold.__dataclass_fields__}
        fpir = _any_of(found.fmr, gallery_size)
        return SearchThreshold(
            **values, gallery_size=gallery_size, target_fpir=target_fpir, fpir=fpir
        )

    @property
    def summary(self) -> Summary:
        return self.parts.summary

    @property
    def histograms(self) -> Histograms:
        return self.parts.histograms

    @property
    def groups(self) -> tuple[GroupRates, ...]:
        return self.parts.groups

    @property
    def quality_bins(self) -> tuple[QualityBin, ...]:
        return self.parts.quality

    @property
    def kinds(self) -> tuple[KindRates, ...]:
        return self.parts.kinds

    @property
    def people(self) -> int:
        """Number of people measured; 0 if unknown."""
        return self.parts.people

    @property
    def genuine_pairs(self) -> int:
        return self.parts.everyone.fnmr.trials

    @property
    def impostor_pairs(self) -> int:
        return self.parts.everyone.fmr.trials

    @cached_property
    def _worth(self) -> np.ndarray:
        """``(T,)`` effective stranger pairs at each knot, in the half with fewer."""
        return np.minimum(self.parts.fit.fmr.effective, self.parts.held_out.fmr.effective)

    @property
    def _cautious(self) -> bool:
        return True

    def _cautious_knot(self, target_fmr: float) -> int:
        """Return the first knot whose whole interval is within the target, if data allow."""
        if not self._cautious:
            return 0
        high = self.parts.fit.fmr.high
        short = np.flatnonzero(high * self._worth < CAUTION_ERRORS)
        last = max(0, int(short[0]) - 1) if len(short) else len(high) - 1
        within = np.flatnonzero(high <= target_fmr)
        return min(last, int(within[0])) if len(within) else last

    @cached_property
    def _measured_down_to(self) -> tuple[float, float]:
        """The smallest target down to which nothing is extrapolated, and its threshold."""
        fit, scores = self.parts.fit.fmr, self.parts.scores
        rate = fit.errors / fit.trials
        # A knot serves the targets from its own rate up to the rate of the knot before it.
        serving = np.flatnonzero(rate < np.r_[1.0, rate[:-1]])
        above = np.r_[1.0, rate[serving[:-1]]]
        least = np.minimum(CERTAIN_ERRORS / self._worth[serving], self.parts.tail.rate)
        short = np.flatnonzero(least > rate[serving])
        if not len(short):
            return float(rate[-1]), float(scores[-1])
        last = int(short[0])
        if least[last] >= above[last] and last:
            return float(above[last]), float(scores[serving[last - 1]])
        return float(least[last]), float(scores[serving[last]])

    def _reject_below(self, target_fnmr: float) -> float:
        """Return the highest score below which "different" is justified.

        At most ``target_fnmr`` of same-person pairs lie below it, and scores below it are likelier
        for strangers. Without the second condition, a good model would call pairs different that
        are evidence for one person.
        """
        curve, ratio = self.parts.fit.fnmr, self.parts.likelihood
        kept = np.flatnonzero(curve.errors <= target_fnmr * curve.trials)
        even = float(np.interp(0.0, ratio.log10, ratio.scores))
        return min(float(self.parts.scores[kept[-1]]), even)

    def _quality_bin(self, quality: float | None) -> QualityBin | None:
        if quality is None or not self.parts.quality:
            return None
        bins = self.parts.quality
        return next((found for found in bins if quality < found.high), bins[-1])

    def _curves(self, quality: float | None) -> ErrorCurves:
        found = self._quality_bin(quality)
        return self.parts.everyone if found is None else found

    def _rate_at(self, curve: RateCurve, score: float) -> Rate:
        scores = self.parts.scores
        errors, low, high = (
            float(np.interp(score, scores, row)) for row in (curve.errors, curve.low, curve.high)
        )
        count = round(errors)
        value = count / curve.trials if curve.trials else float("nan")
        return Rate(value, min(low, value), max(high, value), count, curve.trials)


def _first_within(curve: RateCurve, target_fmr: float) -> int:
    """The first knot whose rate is within the target, or within the least rate measurable."""
    least = CERTAIN_ERRORS / max(float(curve.effective[-1]), CERTAIN_ERRORS)
    allowed = max(target_fmr, least) * curve.trials * (1 + 1e-9)
    reached = np.flatnonzero(curve.errors <= allowed)
    return int(reached[0]) if len(reached) else len(curve.errors) - 1


def _any_of(rate: Rate, people: int) -> Rate:
    """Chance of at least one error in ``people`` independent trials."""
    value, low, high = (
        -math.expm1(people * math.log1p(-min(one, 1 - 1e-16)))
        for one in (rate.value, rate.low, rate.high)
    )
    return Rate(value, low, high, rate.errors, rate.trials)
