"""A calibration as one HTML file: figures, plots and, locally, the pairs it gets most wrong."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image

from model.calibration import Calibration
from model.calibration.pairs.worst_pairs import ScoredPair
from model.types import Rate
from model.wording import one_in
from training.report.calibration_plots import (
    det_plot,
    error_plot,
    reliability_plot,
    score_plot,
    supported_targets,
)


class Pictures(NamedTuple):
    """Photos to show beside the figures.

    Attributes:
        crops: Aligned faces, uint8 ``(N, 112, 112, 3)``.
        names: Person and file of each.
        alike: The worst false matches among them.
        unlike: The worst false non-matches.
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
        path: The HTML file.
        calibration: What to show.
        name: Name of the model.
        pictures: The pairs it gets most wrong; they are embedded in the file.
    """
    sections = [
        _overview(calibration),
        _targets(calibration),
        _plots(calibration),
        _quality(calibration),
        _groups(calibration),
        _worst(pictures),
        _origin(calibration),
    ]
    style = files("training.report").joinpath("calibration_report.css").read_text(encoding="utf-8")
    page = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>Calibration of {escape(name)}</title><style>{style}</style></head><body><main>"
        f"<h1>Calibration of {escape(name)}</h1>{''.join(sections)}</main></body></html>"
    )
    path.write_text(page, encoding="utf-8", errors="backslashreplace")


def _overview(calibration: Calibration) -> str:
    summary = calibration.summary
    ratio = calibration.parts.likelihood
    cards = [
        (
            "d′",
            f"{summary.d_prime.value:.2f}",
            f"{summary.d_prime.low:.2f} to {summary.d_prime.high:.2f}",
        ),
        (
            "equal error rate",
            f"{summary.eer.value:.2%}",
            f"{summary.eer.low:.2%} to {summary.eer.high:.2%}",
        ),
        (
            "Gaussian guess of it",
            f"{summary.gaussian_eer:.2%}",
            f"at {summary.gaussian_threshold:.3f}; measured at {summary.eer_threshold:.3f}",
        ),
        (
            "people",
            f"{calibration.people:,}" if calibration.people else "unknown",
            f"{calibration.photos:,} photos" if calibration.photos else "scores only",
        ),
        (
            "same-person pairs",
            f"{calibration.genuine_pairs:,}",
            f"mean {summary.genuine.mean:.3f}, spread {summary.genuine.std:.3f}, "
            f"skew {summary.genuine.skew:+.2f}",
        ),
        (
            "stranger pairs",
            f"{calibration.impostor_pairs:,}",
            f"mean {summary.impostor.mean:.3f}, spread {summary.impostor.std:.3f}, "
            f"skew {summary.impostor.skew:+.2f}",
        ),
        ("Cllr", f"{ratio.cllr:.4f}", f"{ratio.cllr_min:.4f} at best; {ratio.method}"),
    ]
    tiles = "".join(
        f'<div class="card"><span>{label}</span><b>{value}</b><small>{note}</small></div>'
        for label, value, note in cards
    )
    warnings = "".join(f"<li>{escape(text)}</li>" for text in calibration.warnings)
    box = f'<ul class="beware">{warnings}</ul>' if warnings else ""
    return f'<p>{escape(calibration.protocol)}.</p><div class="cards">{tiles}</div>{box}'


def _targets(calibration: Calibration) -> str:
    rows = []
    for target in calibration.targets:
        state = "supported" if target.supported else "unsupported"
        note = "threshold extrapolated" if target.extrapolated else ""
        badge = f'<em class="{state}">{state}</em> {note}'
        rows.append(
            [
                one_in(target.target_fmr),
                f"{target.threshold:.4f}",
                _small(target.fmr),
                _percent(target.fnmr),
                badge,
            ]
        )
    head = ["target", "threshold", "false matches", "false non-matches", ""]
    return (
        "<h2>Thresholds</h2><p>Each threshold was chosen on one half of the people; the rates "
        "beside it were measured on the other half. Intervals are 95%, over people.</p>"
        + _table(head, rows)
    )


def _plots(calibration: Calibration) -> str:
    figures = [
        (
            "Scores",
            score_plot(calibration),
            "Both distributions, each to its own scale, with the thresholds for 1 in 100, 1 in "
            "10,000 and so on as far as they are supported.",
        ),
        (
            "Errors by threshold",
            error_plot(calibration),
            "Share of false matches (strangers at or above) and false non-matches (one person "
            "below), with 95% bands.",
        ),
        (
            "Detection error trade-off",
            det_plot(calibration),
            "Held-out half; down and left is better. Dots are the targets.",
        ),
        (
            "Likelihood ratios",
            reliability_plot(calibration),
            "Promised by the half it was learnt on, against observed on the other. On the diagonal "
            "the promise is exact.",
        ),
    ]
    body = "".join(
        f"<figure><h3>{title}</h3>{plot}<figcaption>{text}</figcaption></figure>"
        for title, plot, text in figures
    )
    legend = (
        '<p class="legend"><i class="genuine"></i> one person '
        '<i class="impostor"></i> strangers</p>'
    )
    return f'<h2>Curves</h2>{legend}<div class="figures">{body}</div>'


def _quality(calibration: Calibration) -> str:
    if not calibration.quality_bins:
        return ""
    shown = supported_targets(calibration) or calibration.targets[:2]
    rows = []
    for found in calibration.quality_bins:
        middle = (found.low + found.high) / 2
        for target in shown:
            rows.append(
                [
                    f"{found.low:.2f} to {found.high:.2f}",
                    one_in(target.target_fmr),
                    _small(calibration.fmr_at(target.threshold, middle)),
                    _percent(calibration.fnmr_at(target.threshold, middle)),
                ]
            )
    head = ["poorer photo", "target", "false matches", "false non-matches"]
    return (
        "<h2>By photo quality</h2><p>Pairs of all people by the lower quality of the two photos, "
        "at the thresholds above.</p>" + _table(head, rows)
    )


def _groups(calibration: Calibration) -> str:
    if not calibration.groups:
        return ""
    rows = [
        [
            escape(" × ".join(dict.fromkeys(found.groups))),
            one_in(found.target_fmr),
            f"{found.people:,}",
            _small(found.fmr) if found.fmr else "too few people",
            _percent(found.fnmr)
            if found.fnmr
            else ("–" if found.groups[0] != found.groups[1] else "too few people"),
        ]
        for found in calibration.groups
        if next(t for t in calibration.targets if t.target_fmr == found.target_fmr).supported
    ]
    head = ["group", "target", "people", "false matches", "false non-matches"]
    return (
        "<h2>By group</h2><p>Groups as supplied, at the one global threshold, on the held-out "
        "half.</p>" + _table(head, rows)
    )


def _worst(pictures: Pictures | None) -> str:
    if pictures is None:
        return ""
    parts = []
    for title, pairs in (
        ("Strangers most alike", pictures.alike),
        ("One person least alike", pictures.unlike),
    ):
        shown = "".join(_pair(pictures, pair) for pair in pairs)
        parts.append(f'<h3>{title}</h3><div class="pairs">{shown}</div>')
    return (
        "<h2>Worst pairs</h2><p>Often these are mistakes in the labels, not of the model; "
        "<code>--corrections</code> takes a list of them. Look at both kinds: setting "
        "right only one flatters the model or wrongs it. Photos and names are inside this file: "
        "keep it where they may be kept.</p>" + "".join(parts)
    )


def _pair(pictures: Pictures, pair: ScoredPair) -> str:
    rows = pair.first, pair.second
    faces = "".join(_image(pictures.crops[row]) for row in rows)
    names = "<br>".join(escape(pictures.names[row]) for row in rows)
    return (
        f'<figure class="pair">{faces}<figcaption><b>{pair.score:.3f}</b><br>{names}'
        "</figcaption></figure>"
    )


def _origin(calibration: Calibration) -> str:
    rows = [
        ["calibration", calibration.id],
        ["model", escape(calibration.model_id[:16])],
        ["data", escape(calibration.data_fingerprint[:16])],
        ["made", calibration.created],
        ["seed", str(calibration.seed)],
    ]
    return "<h2>Origin</h2>" + _table(["", ""], rows)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    top = "".join(f"<th>{text}</th>" for text in head)
    top = f"<tr>{top}</tr>" if any(head) else ""
    body = "".join("<tr>" + "".join(f"<td>{text}</td>" for text in row) + "</tr>" for row in rows)
    return f'<div class="scroll"><table>{top}{body}</table></div>'


def _small(rate: Rate) -> str:
    return (
        f"<b>{rate.value:.1e}</b> <small>{rate.low:.1e} to {rate.high:.1e}<br>"
        f"{rate.errors:,} of {rate.trials:,}</small>"
    )


def _percent(rate: Rate) -> str:
    return (
        f"<b>{rate.value:.2%}</b> <small>{rate.low:.2%} to {rate.high:.2%}<br>"
        f"{rate.errors:,} of {rate.trials:,}</small>"
    )


def _image(crop: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(crop)).save(buffer, "JPEG", quality=85)
    data = base64.b64encode(buffer.getvalue()).decode()
    return f'<img alt="" src="data:image/jpeg;base64,{data}">'
