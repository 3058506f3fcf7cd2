"""A verdict and a calibration in sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.special import ndtr

from model.types import Rate, Verdict

if TYPE_CHECKING:
    from model.calibration.calibration import Calibration
    from model.calibration.types import Threshold

DISAGREES = 2.0
"""The Gaussian model is called wrong when it misses a tail by more than this factor."""


def one_in(rate: float) -> str:
    """0.0001 as ``1 in 10,000``."""
    if rate > 0.5:
        return f"{round(100 * rate)} in 100"
    return f"1 in {round(1 / rate):,}" if rate > 0 else "0"


def verdict_reasons(
    verdict: Verdict, limit: Threshold, quality: float | None, too_poor: bool
) -> tuple[str, ...]:
    """Why the verdict is what it is, most important first."""
    reasons = []
    promise = one_in(verdict.target_fmr)
    if too_poor:
        reasons.append(
            f"The poorer photo has quality {quality:.2f}; hardly any photo this model was "
            "calibrated on is as poor, so its errors are not known."
        )
    elif verdict.decision == "same":
        reasons.append(
            f"The score {verdict.score:.3f} reaches {verdict.threshold:.3f}, the threshold that "
            f"lets {promise} stranger pairs pass."
        )
    elif verdict.decision == "different":
        reasons.append(
            f"The score {verdict.score:.3f} is below {verdict.reject_below:.3f}, which almost all "
            "photos of one person reach."
        )
    else:
        reasons.append(
            f"The score {verdict.score:.3f} is below {verdict.threshold:.3f}, needed to keep "
            f"strangers to {promise}, but not below {verdict.reject_below:.3f}, where photos of "
            "one person become rare."
        )
    raised = verdict.threshold > limit.threshold
    if raised and not too_poor and verdict.decision == "inconclusive":
        reasons.append(
            f"At quality {quality:.2f} strangers look alike more often, so the threshold was "
            f"raised from {limit.threshold:.3f}."
        )
    reasons.append(_count(verdict.fmr, "stranger pairs score this high or higher"))
    reasons.append(_count(verdict.fnmr, "pairs of one person score lower than this"))
    if not verdict.supported:
        origin = "extrapolated from the tail" if limit.extrapolated else "a rough estimate"
        if limit.threshold > 1 >= verdict.score:
            origin += " and above 1, which no two photos exceed: at this target nobody is the same"
        reasons.append(
            f"The calibration is too small to measure {promise}; the threshold is {origin}."
        )
    return tuple(reasons)


def calibration_warnings(calibration: Calibration) -> tuple[str, ...]:
    """What a reader of this calibration should beware of."""
    found = []
    parts, summary = calibration.parts, calibration.summary
    if parts.people == 0:
        found.append(
            "Whose pairs these are is unknown: intervals take all pairs for independent and are "
            "too narrow."
        )
    if summary.d_prime.value <= 0:
        found.append(
            "Pairs of one person score no higher than strangers. Are these distances? Then negate "
            "them."
        )
    if parts.largest_share > 0.2:
        found.append(
            f"{parts.largest_share:.0%} of all same-person pairs are of one person; false "
            "non-match rates mostly describe that person, and their intervals are wide."
        )
    lacking = [target for target in calibration.targets if not target.supported]
    if lacking:
        names = ", ".join(one_in(target.target_fmr) for target in lacking)
        found.append(f"Too few people to measure a false-match rate of {names}.")
    found += _gaussian_tails(calibration)
    if parts.likelihood.cllr >= 1:
        found.append("The likelihood ratio tells less than a coin on the held-out half.")
    return tuple(found)


def _gaussian_tails(calibration: Calibration) -> list[str]:
    """Where mean and spread alone would mislead most, for each kind of error."""
    summary = calibration.summary
    kinds = (
        ("strangers match", "fmr", summary.impostor, -1),
        ("photos of one person fail", "fnmr", summary.genuine, 1),
    )
    found = []
    for what, name, spread, side in kinds:
        misses = []
        for target in calibration.targets:
            rate: Rate = getattr(target, name)
            offset = (target.threshold - spread.mean) / max(spread.std, 1e-12)
            guess = float(ndtr(side * offset))
            # Only what the interval rules out counts as a miss, by its nearer end.
            if target.supported and guess > 0 and not rate.low <= guess <= rate.high:
                near = rate.low if rate.low > guess else rate.high
                misses.append((max(near / guess, guess / near), target, rate.value / guess))
        times, target, ratio = max(misses, key=lambda miss: miss[0], default=(1.0, None, 1.0))
        if target is not None and times > DISAGREES:
            often = f"{ratio:,.0f}" if ratio > 10 else f"{ratio:.2g}"
            found.append(
                f"The tails are not Gaussian: at {target.threshold:.3f} {what} {often} times as "
                "often as mean and spread would say. Use the measured rates, not d'."
            )
    return found


def _count(rate: Rate, what: str) -> str:
    return (
        f"{rate.errors:,} of {rate.trials:,} {what} "
        f"({rate.value:.2g}; 95% interval {rate.low:.2g} to {rate.high:.2g})."
    )
