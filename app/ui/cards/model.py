"""The model and its calibration as HTML cards."""

from __future__ import annotations

import re
from pathlib import Path

from markupsafe import Markup

from app.ui.cards import markup, plots
from app.ui.cards.curves import curves_of
from app.usecases.calibrate import OwnCalibration
from app.usecases.results import ModelInfo
from model import wording
from model.calibration import Calibration, Estimate
from model.types import Rate

HIGHEST = 1.0
"""The highest possible score; an extrapolated threshold may be above it."""


def facts_card(info: ModelInfo) -> Markup:
    """Render the model, engine, device and index in use."""
    index = {name: value for name, value in info.index.items() if not isinstance(value, dict)}
    kind = ", ".join(str(index[name]) for name in ("engine", "kind") if name in index)
    facts = [
        ("Model", info.name),
        ("Model id", info.model_id[:16]),
        ("Runs on", f"{info.engine}, {info.device}"),
        ("A face is", f"{info.dim} numbers"),
        ("Calibration", info.calibration_id or "none yet"),
        ("Search index", kind or "none"),
        ("Faces in the index", wording.count(int(index.get("count", 0)))),
        ("Memory of the index", wording.size(int(index.get("memory_bytes", 0)))),
    ]
    return markup.render("facts.html", facts=facts)


def calibration_card(calibration: Calibration) -> Markup:
    """Render the two score distributions and the error rates of each target."""
    summary = calibration.summary
    rows = [
        (
            wording.target(each.target_fmr).capitalize(),
            f"{each.threshold:.3f}" if each.threshold <= HIGHEST else "out of reach",
            _rate(each.fmr, wording.chances(each.fmr)),
            _rate(each.fnmr, wording.shares(each.fnmr)),
            "measured" if each.supported else "too few pairs to measure",
        )
        for each in calibration.targets
    ]
    headings = ("Target", "Threshold", "Strangers let through", "Same person missed", "Certainty")
    people = "people"
    if calibration.people:
        people = wording.plural(calibration.people, "person", "people")
    figures = (
        ("d′", f"{_estimate(summary.d_prime)}: distance of the two means in standard deviations."),
        (
            "Equal error rate",
            f"{_estimate(summary.eer, share=True)}, at {summary.eer_threshold:.3f}.",
        ),
    )
    return markup.render(
        "calibration.html",
        calibration=calibration,
        people=people,
        drawing=plots.LEGEND + plots.distributions(curves_of(calibration)),
        figures=figures,
        targets=markup.table(headings, rows, "Targets"),
    )


def with_pictures(card: str, folder: Path) -> str:
    """Embed the PNG images of a Markdown model card, because the page serves no files."""

    def inlined(found: re.Match[str]) -> str:
        file = folder / found["file"]
        if not file.is_file():
            return found["words"]
        return f"![{found['words']}]({markup.data_address(file.read_bytes(), 'png')})"

    return re.sub(r"!\[(?P<words>[^\]]*)\]\((?P<file>[\w.-]+\.png)\)", inlined, card)


def own_card(found: OwnCalibration) -> Markup:
    """Render a new calibration on the user's own photos, before it is activated."""
    return markup.render("own.html", found=found, card=calibration_card(found.calibration))


def _rate(rate: Rate, words: tuple[str, str, str]) -> str:
    value, low, high = words
    counted = f"{wording.count(rate.errors)} of {wording.count(rate.trials)}"
    return f"{value} ({low} to {high}; {counted})"


def _estimate(estimate: Estimate, *, share: bool = False) -> str:
    form = wording.percent if share else "{:.2f}".format
    low, high = form(estimate.low), form(estimate.high)
    return f"{form(estimate.value)} (95% interval {low} to {high})"
