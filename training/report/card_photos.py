"""Card sections on photos beyond the original LFW: degraded copies and other collections."""

from __future__ import annotations

from collections.abc import Mapping

from model.calibration import Calibration
from model.calibration.check import PromiseCheck
from training.report.markdown import percent, rate_in_words, table


def kinds_section(calibration: Calibration) -> list[str]:
    """Error rates for each kind of photo; empty if the calibration has no kinds."""
    if not calibration.kinds:
        return []
    rows = [
        (
            found.kind, f"{found.target_fmr:.0e}", f"{found.people:,}", rate_in_words(found.fmr),
            "exceeded" if found.exceeded else "kept", f"{1 - found.missed.value:.1%}",
            f"{found.missed.value - found.different.value:.1%}", percent(found.different),
        )
        for found in calibration.kinds
    ]  # fmt: skip
    head = (
        "both photos", "target FMR", "people", "strangers called *same*", "target",
        "one person: *same*", "*inconclusive*", "*different*",
    )  # fmt: skip
    return [
        "By kind of photo, on the half of the people thresholds were not chosen on, at the "
        "thresholds for the quality of each pair. *whole* photos are as LFW has them; copies are "
        "cut close (a margin of 0 to 30% around the face's box), small (8 to 32 pixels between the "
        "eyes), JPEG at quality 30, blurred (3 to 12% of the distance between the eyes) or dark (a "
        "tenth to half of the light).",
        table(head, rows),
    ]


def collections_section(collections: Mapping[str, tuple[PromiseCheck, ...]]) -> list[str]:
    """The same thresholds on other collections; empty if there are none."""
    if not collections:
        return []
    rows = [
        (
            name, f"{check.target_fmr:.0e}", rate_in_words(check.observed_fmr),
            check.fmr if check.supported else "no promise", percent(check.promised_fnmr),
            percent(check.observed_fnmr), check.fnmr,
        )
        for name, checks in collections.items()
        for check in checks
    ]  # fmt: skip
    head = ("people of", "target FMR", "observed FMR", "", "promised FNMR", "observed FNMR", "")
    return [
        "The same thresholds on people of other collections who were held out of training. Where "
        "thresholds were also chosen on a collection, its other half. Relatives are strangers: "
        "Families In the Wild (fiw) is full of them.",
        table(head, rows),
    ]
