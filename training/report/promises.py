"""Text tables: promised against observed rates, and the kinds of photos in a collection."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from model.calibration import Calibration
from model.calibration.check import PromiseCheck
from model.calibration.kinds import WHOLE
from model.types import Quality, Rate
from model.wording import percent

KIND_OF_REASON = {
    "cut_off": "close",
    "too_small": "small",
    "blurred": "blurred",
    "too_dark": "dark",
}
"""Quality reason -> kind of photo. No quality measure detects JPEG compression."""

EXAMPLE_TARGET = 1e-3


def promise_table(checks: tuple[PromiseCheck, ...]) -> str:
    """Promised against observed rates, one line per target."""
    lines = [
        f"{'target':>8}  {'threshold':>9}  {'promised FMR':^30}  {'observed FMR':^30}  {'':9}  "
        f"{'promised FNMR':^24}  {'observed FNMR':^24}"
    ]
    for check in checks:
        word = check.fmr if check.supported else "no promise"
        lines.append(
            f"{check.target_fmr:8.0e}  {check.threshold:9.4f}  {rate(check.promised_fmr)}  "
            f"{rate(check.observed_fmr)}  {word:9}  {share(check.promised_fnmr)}  "
            f"{share(check.observed_fnmr)}  {check.fnmr}"
        )
    return "\n".join(lines)


def kind_shares(qualities: Sequence[Quality]) -> dict[str, float]:
    """Share of photos of each kind, largest first; a photo's first known reason is its kind."""
    kinds = (_kind(quality) for quality in qualities)
    return {kind: number / len(qualities) for kind, number in Counter(kinds).most_common()}


def kinds_table(shares: dict[str, float], calibration: Calibration) -> str:
    """Share of each kind of photo, and the calibration's rates for that kind."""
    known = {each.kind: each for each in calibration.kinds if each.target_fmr == EXAMPLE_TARGET}
    lines = []
    for kind, part in shares.items():
        line = f"{percent(part):>6}  {kind:8}"
        if kind in known:
            expected = known[kind]
            word = "target exceeded" if expected.exceeded else "target kept"
            line += f"  at {EXAMPLE_TARGET:.0e}: {word}, missed {share(expected.missed).strip()}"
        lines.append(line)
    return "\n".join(lines)


def rate(value: Rate) -> str:
    """A rate and its interval in scientific notation."""
    return f"{value.value:.2e} [{value.low:.1e}, {value.high:.1e}]".center(30)


def share(value: Rate) -> str:
    """A rate and its interval in percent."""
    return f"{value.value:.2%} [{value.low:.2%}, {value.high:.2%}]".center(24)


def _kind(quality: Quality) -> str:
    named = (KIND_OF_REASON.get(reason.code) for reason in quality.reasons)
    return next(filter(None, named), WHOLE)
