"""The model and its calibration as HTML cards."""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

from app import text
from app.ui.cards import markup, plots
from app.ui.cards.curves import curves_of
from app.ui.widgets.common import live
from app.usecases.calibrate import OwnCalibration
from app.usecases.results import ModelInfo
from model.calibration import Calibration, Estimate
from model.types import Rate

HIGHEST = 1.0
"""No two photos score higher; an extrapolated threshold may lie beyond it."""


def facts_card(info: ModelInfo) -> str:
    """What is in use: model, engine, device, index."""
    index = {name: value for name, value in info.index.items() if not isinstance(value, dict)}
    kind = ", ".join(str(index[name]) for name in ("engine", "kind") if name in index)
    facts = [
        ("Model", info.name),
        ("Model id", info.model_id[:16]),
        ("Runs on", f"{info.engine}, {info.device}"),
        ("A face is", f"{info.dim} numbers"),
        ("Calibration", info.calibration_id or "none yet"),
        ("Search index", kind or "none"),
        ("Faces in the index", text.count(int(index.get("count", 0)))),
        ("Memory of the index", text.size(int(index.get("memory_bytes", 0)))),
    ]
    rows = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(words)}</dd></div>" for name, words in facts
    )
    return (
        '<section class="fv-card" aria-label="In use"><h2>In use</h2>'
        f'<dl class="fv-facts fv-grid">{rows}</dl></section>'
    )


def calibration_card(calibration: Calibration) -> str:
    """The two distributions and what each target costs."""
    summary = calibration.summary
    rows = [
        (
            text.target(each.target_fmr).capitalize(),
            f"{each.threshold:.3f}" if each.threshold <= HIGHEST else "out of reach",
            _rate(each.fmr, text.chances(each.fmr)),
            _rate(each.fnmr, text.shares(each.fnmr)),
            "measured" if each.supported else "too few pairs to measure",
        )
        for each in calibration.targets
    ]
    headings = ("Target", "Threshold", "Strangers let through", "Same person missed", "Certainty")
    people = "people"
    if calibration.people:
        people = text.plural(calibration.people, "person", "people")
    basis = (
        f"Measured on {people}: "
        f"{text.plural(calibration.genuine_pairs, 'pair')} of one person, "
        f"{text.plural(calibration.impostor_pairs, 'pair')} of strangers. "
        f"{calibration.protocol}."
    )
    drawing = plots.LEGEND + plots.distributions(curves_of(calibration))
    figures = (
        ("d′", f"{_estimate(summary.d_prime)}: distance of the two means in standard deviations."),
        (
            "Equal error rate",
            f"{_estimate(summary.eer, share=True)}, at {summary.eer_threshold:.3f}.",
        ),
    )
    words = "".join(f"<dt>{name}</dt><dd>{escape(figure)}</dd>" for name, figure in figures)
    warnings = "".join(f"<li>{escape(warning)}</li>" for warning in calibration.warnings)
    caution = f'<div class="fv-why"><h3>Beware</h3><ul>{warnings}</ul></div>' if warnings else ""
    return (
        '<section class="fv-card" aria-label="Calibration"><h2>What its scores mean</h2>'
        f'<p>{escape(basis)}</p><div class="fv-columns"><div>{drawing}</div>'
        f'<dl class="fv-facts">{words}</dl></div>{markup.table(headings, rows, "Targets")}{caution}'
        f"<footer>Calibration {escape(calibration.id)} of {escape(calibration.created[:10])}"
        "</footer></section>"
    )


def with_pictures(card: str, folder: Path) -> str:
    """A model card, Markdown, with the PNG pictures beside it put in: the page serves no files."""

    def inlined(found: re.Match[str]) -> str:
        file = folder / found["file"]
        if not file.is_file():
            return found["words"]
        return f"![{found['words']}]({markup.data_address(file.read_bytes(), 'png')})"

    return re.sub(r"!\[(?P<words>[^\]]*)\]\((?P<file>[\w.-]+\.png)\)", inlined, card)


def own_card(found: OwnCalibration) -> str:
    """A fresh calibration on own photos, before it is used."""
    left_out = ""
    if found.skipped:
        items = "".join(
            f"<li>{escape(name)}: {escape(why)}</li>" for name, why in found.skipped[:50]
        )
        left_out = (
            f"<details><summary>{text.plural(len(found.skipped), 'photo')} left out</summary>"
            f"<ul>{items}</ul></details>"
        )
    used = (
        f"{text.plural(found.photos, 'photo')} of {text.plural(found.people, 'person', 'people')}"
    )
    note = markup.message("info", f"Measured on {used}. Not in use yet.")
    return note + left_out + calibration_card(found.calibration)


def progress_bar(stage: str, done: int, total: int) -> str:
    """How far long work is."""
    value = f'max="{total}" value="{done}"' if total else ""
    count = f"{text.count(done)} of {text.count(total)}" if total else ""
    return live(
        f'<div class="fv-card"><p><strong>{escape(stage)}</strong> {count}</p>'
        f'<progress class="fv-progress" {value} aria-label="{escape(stage)}"></progress></div>'
    )


def _rate(rate: Rate, words: tuple[str, str, str]) -> str:
    value, low, high = words
    counted = f"{text.count(rate.errors)} of {text.count(rate.trials)}"
    return f"{value} ({low} to {high}; {counted})"


def _estimate(estimate: Estimate, *, share: bool = False) -> str:
    form = text.percent if share else "{:.2f}".format
    low, high = form(estimate.low), form(estimate.high)
    return f"{form(estimate.value)} (95% interval {low} to {high})"
