"""A self-contained HTML page with embedded figures."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import escape
from matplotlib.figure import Figure

from model.calibration.pairs.scores import Sample
from model.calibration.pairs.worst_pairs import worst_pairs
from training.measure import metrics
from training.measure.retrieval import Recall, recall
from training.report import plots

WORST_SHOWN = 8

STYLE = """
body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}
h1{font-weight:600;margin-bottom:0}p.sub{color:#666;margin-top:.2rem}
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.3rem .8rem;text-align:right;
border-bottom:1px solid #e3e3e3}th:first-child,td:first-child{text-align:left}
table{display:block;overflow-x:auto}small{color:#666}figure{margin:2rem 0}
img{max-width:100%}figcaption{color:#666;font-size:.9rem}
"""


@dataclass
class Page:
    """A report under construction.

    Attributes:
        subtitle: Dataset, split and sample size of all numbers on the page.
        parts: HTML fragments in order.
    """

    title: str
    subtitle: str
    parts: list[str] = field(default_factory=list)

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Add a table; cells that are not ``Markup`` are escaped."""
        lines = ["".join(f"<th>{escape(cell)}</th>" for cell in header)] if any(header) else []
        lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
        self.parts.append("<table>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>")

    def heading(self, text: str) -> None:
        self.parts.append(f"<h2>{escape(text)}</h2>")

    def text(self, text: str) -> None:
        self.parts.append(f"<p>{escape(text)}</p>")

    def figure(self, drawing: Figure, caption: str) -> None:
        data = base64.b64encode(png(drawing)).decode()
        text = escape(caption)
        self.parts.append(
            f'<figure><img alt="{text}" src="data:image/png;base64,{data}">'
            f"<figcaption>{text}</figcaption></figure>"
        )

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        title, subtitle = escape(self.title), escape(self.subtitle)
        path.write_text(
            '<!doctype html><html lang="en"><meta charset="utf-8">'
            '<meta name="viewport" content="width=device-width, initial-scale=1">'
            f"<title>{title}</title>"
            f'<style>{STYLE}</style><h1>{title}</h1><p class="sub">{subtitle}</p>'
            + "".join(self.parts)
            + "</html>",
            encoding="utf-8",
            errors="backslashreplace",
        )


def png(drawing: Figure) -> bytes:
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png")
    return buffer.getvalue()


def metric_rows(report: Mapping[str, Any]) -> list[list[str]]:
    """Rows ``name, value, 95% interval`` from :func:`training.measure.metrics.evaluate`.

    If the report has differences, each row also has the difference and its interval.
    """
    rows = []
    for name, entry in report["metrics"].items():
        rows.append([name, *_cells(entry, ".4f")])
        if "difference" in report:
            rows[-1] += _cells(report["difference"][name], "+.4f")
    return rows


def _cells(entry: Mapping[str, float] | None, style: str) -> list[str]:
    if entry is None:
        return ["not supported by n", ""]
    interval = f"{entry['low']:{style}} to {entry['high']:{style}}" if "low" in entry else ""
    return [f"{entry['value']:{style}}", interval]


def evaluation_page(
    title: str,
    subtitle: str,
    *,
    images: np.ndarray,
    labels: np.ndarray,
    after: np.ndarray,
    before: np.ndarray | None = None,
    names: tuple[str, str] = ("before training", "after training"),
    history: Sequence[Mapping[str, float]] = (),
    report: Mapping[str, Any] | None = None,
) -> Page:
    """The report on one network.

    Args:
        subtitle: Dataset, split, part, n.
        images: uint8 ``(N, H, W, 3)``, the evaluated pictures.
        labels: ``(N,)``.
        after: Embeddings ``(N, D)`` of the network.
        before: Embeddings to compare with, such as those before training.
        names: Labels of ``before`` and ``after``.
        history: Rows of ``metrics.csv``.
        report: Result of :func:`training.measure.metrics.evaluate`; computed if None.
    """
    page = Page(title, subtitle)
    report = report or metrics.evaluate(after, labels, against=before)
    header = ["", "value", "95% interval (identities resampled)"]
    if before is not None:
        header += [f"minus {names[0]}", "95% interval (the same identities for both)"]
    page.table(header, metric_rows(report))
    samples: dict[str, Sample] = {}
    recalls = {}
    for name, vectors in zip(names, (before, after), strict=True):
        if vectors is not None:
            samples[name] = metrics.pair_scores(vectors, labels)
            recalls[name] = recall(vectors, labels)
    pairs = f"{report['genuine_pairs']:,} same-class and {report['impostor_pairs']:,} other pairs"
    page.figure(plots.score_histograms(samples), f"Scores of all pairs: {pairs}.")
    page.figure(plots.error_curves(samples), "Error rates over all thresholds.")
    curves = {name: found.values for name, found in recalls.items()}
    page.figure(plots.recall_curves(curves), f"R@K over {report['queries']:,} queries.")
    if len(history) > 1:
        page.figure(plots.histories({"val": history}), "Over the epochs, on the val part.")
    _pictures(page, images, labels, after, recalls[names[1]])
    return page


def _pictures(
    page: Page, images: np.ndarray, labels: np.ndarray, after: np.ndarray, found: Recall
) -> None:
    rng = np.random.default_rng(0)
    misses = found.queries[~found.hits[:, 0]]
    for name, rows in (("Random queries", found.queries), ("Queries that failed", misses)):
        if len(rows):
            chosen = rng.choice(rows, min(6, len(rows)), replace=False)
            grid = plots.neighbour_grid(images, labels, found.neighbours, chosen)
            page.figure(grid, f"{name} and their nearest pictures; errors framed in red.")
    alike, apart = worst_pairs(after, labels, WORST_SHOWN)
    page.figure(
        plots.pair_grid(images, alike, "different classes, highest scores"),
        "The worst impostor pairs, at most one of any two classes.",
    )
    page.figure(
        plots.pair_grid(images, apart, "same class, lowest scores"),
        "The worst genuine pairs, at most one a class.",
    )
