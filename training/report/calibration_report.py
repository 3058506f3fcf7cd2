"""Calibration report as one HTML file: tables, plots and, optionally, the worst pairs."""

from __future__ import annotations

import base64
import io
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from markupsafe import Markup, escape
from PIL import Image

from model.calibration import Calibration, Threshold
from model.calibration.pairs.worst_pairs import ScoredPair
from model.types import Rate
from model.wording import one_in
from training.report import plots
from training.report.html_page import Page


class Pictures(NamedTuple):
    """Photos of the worst pairs.

    Attributes:
        crops: Aligned faces, uint8 ``(N, 112, 112, 3)``.
        names: Person and file of each crop.
        alike: The worst false matches (impostor pairs with the highest scores).
        unlike: The worst false non-matches (genuine pairs with the lowest scores).
    """

    crops: np.ndarray
    names: Sequence[str]
    alike: Sequence[ScoredPair]
    unlike: Sequence[ScoredPair]


def write_report(
    path: Path, calibration: Calibration, name: str, pictures: Pictures | None = None
) -> None:
    """Write the report.

    Args:
        pictures: Photos of the worst pairs, embedded in the file; None for none.
    """
    page = Page(f"Calibration of {name}", f"{calibration.protocol}.")
    _overview(page, calibration)
    _targets(page, calibration)
    _plots(page, calibration)
    _quality(page, calibration)
    _groups(page, calibration)
    if pictures is not None:
        _worst(page, pictures)
    page.heading("Origin")
    page.table(
        ["", ""],
        [
            ["calibration", calibration.id],
            ["model", calibration.model_id[:16]],
            ["data", calibration.data_fingerprint[:16]],
            ["made", calibration.created],
            ["seed", str(calibration.seed)],
        ],
    )
    page.write(path)


def _overview(page: Page, calibration: Calibration) -> None:
    for text in calibration.warnings:
        page.text(f"Beware: {text}")
    summary, ratio = calibration.summary, calibration.parts.likelihood
    people = f"{calibration.people:,}" if calibration.people else "unknown"
    photos = f"{calibration.photos:,} photos" if calibration.photos else "scores only"
    rows = [
        ["d′", f"{summary.d_prime.value:.2f}",
         f"{summary.d_prime.low:.2f} to {summary.d_prime.high:.2f}"],
        ["equal error rate", f"{summary.eer.value:.2%}",
         f"{summary.eer.low:.2%} to {summary.eer.high:.2%}"],
        ["Gaussian guess of it", f"{summary.gaussian_eer:.2%}",
         f"at {summary.gaussian_threshold:.3f}; measured at {summary.eer_threshold:.3f}"],
        ["people", people, photos],
        ["Cllr", f"{ratio.cllr:.4f}", f"{ratio.cllr_min:.4f} at best; {ratio.method}"],
    ]  # fmt: skip
    for title, pairs, spread in (
        ("same-person pairs", calibration.genuine_pairs, summary.genuine),
        ("stranger pairs", calibration.impostor_pairs, summary.impostor),
    ):
        shape = f"mean {spread.mean:.3f}, spread {spread.std:.3f}, skew {spread.skew:+.2f}"
        rows.append([title, f"{pairs:,}", shape])
    page.table(["", "value", ""], rows)


def _targets(page: Page, calibration: Calibration) -> None:
    page.heading("Thresholds")
    page.text(
        "Each threshold was chosen on one half of the people; the rates beside it were measured "
        "on the other half. Intervals are 95%, over people."
    )
    rows = [
        [
            one_in(target.target_fmr), f"{target.threshold:.4f}",
            _small(target.fmr), _percent(target.fnmr),
            ("supported" if target.supported else "unsupported")
            + (", threshold extrapolated" if target.extrapolated else ""),
        ]
        for target in calibration.targets
    ]  # fmt: skip
    page.table(["target", "threshold", "false matches", "false non-matches", ""], rows)


def _plots(page: Page, calibration: Calibration) -> None:
    page.heading("Curves")
    marks = {one_in(target.target_fmr): target.threshold for target in _supported(calibration)}
    page.figure(
        plots.calibrated_scores(calibration.histograms, marks),
        "Both distributions, each to its own peak, with the thresholds that are supported.",
    )
    parts = calibration.parts
    page.figure(
        plots.errors_by_threshold(parts.scores, parts.everyone),
        "Share of false matches (strangers at or above) and false non-matches (one person "
        "below), with 95% bands.",
    )
    page.figure(
        plots.held_out_trade_off(parts.held_out, _supported(calibration)),
        "Held-out half; down and left is better. Dots are the targets.",
    )
    page.figure(
        plots.reliability(parts.reliability),
        "Likelihood ratios promised by the half they were learnt on, against those observed on "
        "the other. On the diagonal the promise is exact.",
    )


def _quality(page: Page, calibration: Calibration) -> None:
    if not calibration.quality_bins:
        return
    page.heading("By photo quality")
    page.text(
        "Pairs of all people by the lower quality of the two photos, at the thresholds above."
    )
    rows = [
        [
            f"{found.low:.2f} to {found.high:.2f}", one_in(target.target_fmr),
            _small(calibration.fmr_at(target.threshold, (found.low + found.high) / 2)),
            _percent(calibration.fnmr_at(target.threshold, (found.low + found.high) / 2)),
        ]
        for found in calibration.quality_bins
        for target in _supported(calibration) or calibration.targets[:2]
    ]  # fmt: skip
    page.table(["poorer photo", "target", "false matches", "false non-matches"], rows)


def _groups(page: Page, calibration: Calibration) -> None:
    if not calibration.groups:
        return
    page.heading("By group")
    page.text("Groups as supplied, at the one global threshold, on the held-out half.")
    supported = {target.target_fmr for target in calibration.targets if target.supported}
    rows = []
    for found in calibration.groups:
        if found.target_fmr not in supported:
            continue
        within = found.groups[0] == found.groups[1]
        rows.append(
            [
                " × ".join(dict.fromkeys(found.groups)), one_in(found.target_fmr),
                f"{found.people:,}", _small(found.fmr) if found.fmr else "too few people",
                _percent(found.fnmr) if found.fnmr else "too few people" if within else "–",
            ]
        )  # fmt: skip
    page.table(["group", "target", "people", "false matches", "false non-matches"], rows)


def _worst(page: Page, pictures: Pictures) -> None:
    page.heading("Worst pairs")
    page.text(
        "Often these are mistakes in the labels, not of the model; --corrections takes a list of "
        "them. Look at both kinds: setting right only one flatters the model or wrongs it. Photos "
        "and names are inside this file: keep it where they may be kept."
    )
    for title, pairs in (
        ("strangers most alike", pictures.alike),
        ("one person least alike", pictures.unlike),
    ):
        rows = []
        for pair in pairs:
            ends = pair.first, pair.second
            faces = Markup("").join(_image(pictures.crops[row]) for row in ends)
            names = Markup("<br>").join(pictures.names[row] for row in ends)
            rows.append([faces, names, f"{pair.score:.3f}"])
        page.table([title, "", "score"], rows)


def _supported(calibration: Calibration) -> list[Threshold]:
    """Supported targets with an FMR of at most 1 in 100."""
    return [t for t in calibration.targets if t.supported and t.target_fmr <= 0.01]


def _small(rate: Rate) -> Markup:
    return _rate(rate, ".1e")


def _percent(rate: Rate) -> Markup:
    return _rate(rate, ".2%")


def _rate(rate: Rate, style: str) -> Markup:
    interval = f"{rate.low:{style}} to {rate.high:{style}}"
    counted = f"{rate.errors:,} of {rate.trials:,}"
    return Markup("<b>{}</b> <small>{}<br>{}</small>").format(
        f"{rate.value:{style}}", interval, counted
    )


def _image(crop: np.ndarray) -> Markup:
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(crop)).save(buffer, "JPEG", quality=85)
    data = escape(base64.b64encode(buffer.getvalue()).decode())
    return Markup('<img alt="" width="84" src="data:image/jpeg;base64,{}">').format(data)
