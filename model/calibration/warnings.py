"""Warnings about the limits of a calibration, as sentences."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scipy.special import ndtr

from model.types import Rate
from model.wording import one_in

if TYPE_CHECKING:
    from model.calibration.calibration import Calibration

DISAGREES = 2.0
"""Warn when the Gaussian model is wrong about a tail by more than this factor."""


def calibration_warnings(calibration: Calibration) -> tuple[str, ...]:
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
    """Report where the Gaussian model is most wrong, for each kind of error."""
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
            # A miss must lie outside the interval; its size is measured from the nearer end.
            if target.supported and guess > 0 and not rate.low <= guess <= rate.high:
                near = rate.low if rate.low > guess else rate.high
                misses.append((max(near / guess, guess / near), target, rate.value / guess))
        if misses and (worst := max(misses, key=lambda miss: miss[0]))[0] > DISAGREES:
            _, target, ratio = worst
            often = f"{ratio:,.0f}" if ratio > 10 else f"{ratio:.2g}"
            found.append(
                f"The tails are not Gaussian: at {target.threshold:.3f} {what} {often} times as "
                "often as mean and spread would say. Use the measured rates, not d'."
            )
    return found
