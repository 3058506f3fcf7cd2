"""All sentences about rates and all number formats; user interfaces only display them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from model.types import Decision, Rate, Verdict

if TYPE_CHECKING:
    from model.calibration.types import Threshold

HEADLINES: dict[Decision, str] = {
    "same": "Same person",
    "inconclusive": "Inconclusive",
    "different": "Different people",
}

SAME_FILE = "The same photo twice: it cannot show whether two photos are of one person"

TARGETS: tuple[float, ...] = (1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""False-match rates offered on the page."""

PRIORS: tuple[float, ...] = (0.5, 0.1, 0.01, 0.001)
"""Prior probabilities of "same" offered on the page."""

Strength = Literal["strong", "moderate", "weak"]

_SUPPORT: tuple[tuple[float, str, Strength], ...] = (
    (1e6, "extremely strong support", "strong"),
    (1e4, "very strong support", "strong"),
    (1e3, "strong support", "strong"),
    (1e2, "moderately strong support", "moderate"),
    (10, "moderate support", "moderate"),
    (2, "weak support", "weak"),
)
"""The forensic verbal scale: lowest likelihood ratio, words, displayed strength."""

_LARGE = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def count(number: int) -> str:
    """Format an integer with thousands separators: ``12,345``."""
    return f"{number:,}"


def rounded(value: float, digits: int = 2) -> str:
    """Format a positive number to significant digits, without exponent: ``1,900``, ``0.031``."""
    if value <= 0:
        return "0"
    if value >= 1e15:
        return "more than a thousand million million"
    places = digits - 1 - math.floor(math.log10(value))
    text = f"{round(value, places):,.{max(0, places)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def one_in(rate: float, digits: int = 2) -> str:
    """Format a small rate as a chance: ``1 in 10,000``; rates above 20% as ``62%``."""
    if rate <= 0:
        return "none"
    if rate > 0.2:
        return percent(rate)
    return f"1 in {large(1 / rate, digits)}"


def large(value: float, digits: int = 2) -> str:
    """Format a large number for reading: ``10,000``, ``5.6 million``."""
    value = float(f"{value:.{digits - 1}e}")
    for factor, word in _LARGE:
        if factor <= value < 1e15:
            return f"{rounded(value / factor, digits)} {word}"
    return rounded(value, digits)


def chances(rate: Rate) -> tuple[str, str, str]:
    """Format a rate and its interval as chances, with enough digits to tell them apart."""
    numbers = {rate.value, rate.low, rate.high}
    for digits in (2, 3, 4):
        words = (one_in(rate.value, digits), one_in(rate.low, digits), one_in(rate.high, digits))
        if len(set(words)) == len(numbers):
            break
    return words


def shares(rate: Rate) -> tuple[str, str, str]:
    """Format a rate and its interval in percent."""
    return percent(rate.value), percent(rate.low), percent(rate.high)


def percent(share: float) -> str:
    """Format a fraction in percent, with enough digits: ``0.3%``, ``62%``, ``99.97%``."""
    value = 100 * share
    if 99 < value < 100:
        return f"{100 - float(rounded(100 - value)):.6g}%"
    if value == 0 or value >= 10:
        return f"{value:.0f}%"
    if value >= 0.095:
        return f"{value:.1f}%"
    return f"{rounded(value)}%"


def target(rate: float) -> str:
    """Format a target false-match rate: ``at most 1 in 10,000 strangers``."""
    return f"at most {one_in(rate)} {'of ' if rate > 0.2 else ''}strangers"


def target_choices(default: float, offered: Sequence[float] = TARGETS) -> list[tuple[str, float]]:
    """Return labels and values of the target control; the default is always included."""
    rates = sorted({*offered, default}, reverse=True)
    return [(target(rate).capitalize(), rate) for rate in rates]


def prior_choices() -> list[tuple[str, float]]:
    """Return labels and values of the prior control; 0 means no prior."""
    return [("I cannot say", 0.0), *((one_in(prior), prior) for prior in PRIORS)]


def strangers(fmr: Rate) -> str:
    """Say how many stranger pairs look at least this alike, with the 95% interval."""
    if fmr.errors == 0:
        return (
            f"None of {count(fmr.trials)} stranger pairs look this alike "
            f"(95% interval: at most {one_in(fmr.high)})."
        )
    value, low, high = chances(fmr)
    return (
        f"{count(fmr.errors)} of {count(fmr.trials)} stranger pairs {_look(fmr.errors)} this "
        f"alike: about {value} (95% interval: {low} to {high})."
    )


def one_person(fnmr: Rate) -> str:
    """Say how many same-person pairs look less alike, with the 95% interval."""
    look = _look(fnmr.errors)
    pairs = f"{count(fnmr.trials)} pairs of photos of one person {look} less alike than this"
    if fnmr.errors == fnmr.trials:
        return f"All {pairs} (95% interval: at least {percent(fnmr.low)})."
    if fnmr.errors == 0:
        return f"None of {pairs} (95% interval: at most {percent(fnmr.high)})."
    interval = f"{percent(fnmr.low)} to {percent(fnmr.high)}"
    return f"{count(fnmr.errors)} of {pairs} (95% interval: {interval})."


def _look(pairs: int) -> str:
    return "looks" if pairs == 1 else "look"


def likelihood(ratio: float) -> str:
    """Say the likelihood ratio in words, on the forensic verbal scale."""
    if not math.isfinite(ratio) or ratio > 1e15:
        return "This score was only seen for one person: extremely strong support for the same."
    if ratio <= 1e-15:
        return "This score was only seen for two people: extremely strong support for different."
    if 0.5 < ratio < 2:
        return "This score is about as likely for one person as for two: it supports neither."
    side, other, factor = "one person", "two", ratio
    if ratio < 1:
        side, other, factor = "two people", "one", 1 / ratio
    support = next(words for limit, words, _ in _SUPPORT if factor >= limit)
    return (
        f"This score is about {rounded(factor)} times likelier for {side} than for {other}: "
        f"{support} for {'the same' if ratio >= 1 else 'different'}."
    )


def strength(verdict: Verdict) -> Strength:
    """Return how strongly the score supports the decision, in three steps."""
    ratio = verdict.likelihood_ratio
    if ratio is None or verdict.decision == "inconclusive":
        return "weak"
    factor = ratio if verdict.decision == "same" else 1 / ratio if ratio > 0 else math.inf
    return next((look for limit, _, look in _SUPPORT if factor >= limit), "weak")


def headline(verdict: Verdict) -> str:
    """Say the decision and its strength in one line, without a full stop."""
    if verdict.decision == "inconclusive":
        if verdict.likelihood_ratio is None:
            return "Inconclusive: a photo is too poor for any error rate that was measured"
        return f"Inconclusive: {_alike(verdict.fmr)}, and the limit is {one_in(verdict.target_fmr)}"
    look = strength(verdict)
    said = HEADLINES[verdict.decision] + ("" if look == "strong" else f", {look} evidence")
    only = "only " if look == "strong" else ""
    if verdict.decision == "same":
        return f"{said}: {_alike(verdict.fmr, only)}"
    return f"{said}: {_unlike(verdict.fnmr, only)}"


def ignored(background: int, possible: int) -> str:
    """Say how many small faces and doubtful finds were not used; empty if there are none."""
    behind = f"{plural(background, 'small face')} in the background" if background else ""
    spots = f"possibly also a face in {plural(possible, 'spot')}" if possible else ""
    said = " and ".join(filter(None, (behind, spots)))
    return f"Not taken into account: {said}." if said else ""


def pair_counts(decisions: Sequence[Decision | None]) -> str:
    """Count the answers of many pairs: ``Same person: 3, no answer: 1``; None is no answer."""
    found = {words: decisions.count(key) for key, words in HEADLINES.items()}
    found["No answer"] = decisions.count(None)
    return ", ".join(f"{words}: {number}" for words, number in found.items() if number)


def _alike(fmr: Rate, only: str = "") -> str:
    if fmr.errors == 0:
        return f"none of {large(fmr.trials)} pairs of strangers look this alike"
    return f"{only}{_share(fmr.value)} pairs of strangers look this alike"


def _unlike(fnmr: Rate, only: str = "") -> str:
    if fnmr.errors == 0:
        return f"none of {large(fnmr.trials)} pairs of photos of one person look this different"
    return f"{only}{_share(fnmr.value)} pairs of photos of one person look this different"


def _share(rate: float) -> str:
    return f"{one_in(rate)} of" if rate > 0.2 else one_in(rate)


def chance(rate: Rate) -> str:
    """Format the chance of a false match with its 95% interval."""
    if rate.value > 0.2:
        return percent(rate.value)
    if rate.value <= 0:
        return f"at most {one_in(rate.high)}"
    value, low, high = chances(rate)
    span = f"{low} to {high}" if rate.low > 0 else f"up to {high}"
    return f"{value} (95% interval: {span})"


def verdict_reasons(
    verdict: Verdict, limit: Threshold, quality: float | None, too_poor: bool
) -> tuple[str, ...]:
    """List the reasons for the verdict, most important first."""
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
    reasons += [strangers(verdict.fmr), one_person(verdict.fnmr)]
    if verdict.likelihood_ratio is not None:
        reasons.append(likelihood(verdict.likelihood_ratio))
    if verdict.posterior is not None and verdict.prior is not None:
        reasons.append(
            f"Probability that it is one person: {percent(verdict.posterior)}, if it was "
            f"{one_in(verdict.prior)} before looking."
        )
    if not verdict.supported:
        origin = "extrapolated from the tail" if limit.extrapolated else "a rough estimate"
        if limit.threshold > 1 >= verdict.score:
            origin += " and above 1, which no two photos exceed: at this target nobody is the same"
        reasons.append(
            f"The calibration is too small to measure {promise}; the threshold is {origin}."
        )
    return tuple(reasons)


def plural(number: int, one: str, many: str | None = None) -> str:
    """Format a count with its noun: ``1 photo``, ``3 photos``."""
    return f"{count(number)} {one if number == 1 else many or one + 's'}"


def size(number_of_bytes: int) -> str:
    """Format a number of bytes: ``20 MB``."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if number_of_bytes >= factor:
            return f"{rounded(number_of_bytes / factor)} {unit}"
    return plural(number_of_bytes, "byte")
