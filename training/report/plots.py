"""Matplotlib figures in one common style."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.stats import norm

from model.calibration import Threshold
from model.calibration.pairs.scores import Sample
from model.calibration.pairs.worst_pairs import ScoredPair
from model.calibration.types import ErrorCurves, Histograms
from training.measure import metrics
from training.measure.retrieval import KS

GENUINE, IMPOSTOR, RED = "#2a7f62", "#b5483a", "#d62728"
COLOURS = ("#1f5fa8", "#d9822b", "#2a7f62", "#8e4ea8", "#b5483a", "#6b6b6b", "#c4a000", "#17a2a2")
BINS = np.linspace(-1, 1, 161)
TICKS = (1e-4, 1e-3, 1e-2, 1e-1, 0.4, 0.8)


def figure(columns: int = 1, rows: int = 1, width: float = 5.2, height: float = 3.6) -> Figure:
    """An empty figure with ``rows x columns`` axes."""
    result = Figure(figsize=(width * columns, height * rows), layout="constrained", dpi=110)
    for axes in np.atleast_1d(result.subplots(rows, columns)).ravel():
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25, linewidth=0.6)
    return result


def score_histograms(samples: Mapping[str, Sample]) -> Figure:
    """Genuine and impostor scores side by side, each titled with its d'."""
    result = figure(len(samples))
    for axes, (title, sample) in zip(result.axes, samples.items(), strict=True):
        for name, counts, colour in (
            ("same class", sample.genuine, GENUINE),
            ("different classes", sample.impostor, IMPOSTOR),
        ):
            if not counts.any():
                continue
            mean = np.average(sample.values, weights=counts)
            axes.hist(
                sample.values, BINS, weights=counts, density=True, color=colour, alpha=0.55,
                label=f"{name}, mean {mean:.2f}",
            )  # fmt: skip
        axes.set(title=f"{title}: d' = {metrics.d_prime(sample):.2f}", xlabel="cosine similarity")
        axes.set(ylabel="density", xlim=(-0.6, 1))
        axes.legend(
            frameon=False, fontsize=9, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.15)
        )
    return result


def error_curves(samples: Mapping[str, Sample]) -> Figure:
    """ROC and DET of one or several samples."""
    result = figure(2)
    roc, det = result.axes
    for colour, (name, sample) in zip(COLOURS, samples.items(), strict=False):
        fmr, fnmr = metrics.rates(sample.genuine, sample.impostor)
        roc.plot(fmr, 1 - fnmr, color=colour, label=name)
        inside = (fmr > 0) & (fnmr > 0) & (fmr < 1) & (fnmr < 1)
        det.plot(norm.ppf(fmr[inside]), norm.ppf(fnmr[inside]), color=colour, label=name)
    roc.set(xscale="log", xlim=(1e-5, 1), ylim=(0, 1.01), title="ROC")
    roc.set(xlabel="false-match rate", ylabel="true-match rate")
    places = norm.ppf(TICKS)
    labels = [f"{tick:g}" for tick in TICKS]
    det.set_xticks(places, labels)
    det.set_yticks(places, labels)
    limits = (norm.ppf(5e-5), norm.ppf(0.95))
    det.set(xlim=limits, ylim=limits, title="DET")
    det.set(xlabel="false-match rate", ylabel="false non-match rate")
    roc.legend(frameon=False, loc="lower right")
    return result


def calibrated_scores(histograms: Histograms, marks: Mapping[str, float]) -> Figure:
    """Both score distributions of a calibration, each scaled to its peak, with marked scores."""
    result = figure(width=6.4)
    (axes,) = result.axes
    for name, counts, colour in (
        ("strangers", histograms.impostor, IMPOSTOR),
        ("one person", histograms.genuine, GENUINE),
    ):
        heights = np.asarray(counts) / max(*counts, 1)
        axes.stairs(heights, histograms.edges, fill=True, color=colour, alpha=0.55, label=name)
    for row, (name, score) in enumerate(marks.items()):
        axes.axvline(score, color="black", linewidth=0.8)
        axes.annotate(name, (score, 1.25 - 0.07 * row), fontsize=7)
    axes.set(xlabel="score", ylabel="share of the peak", ylim=(0, 1.3))
    axes.legend(frameon=False, loc="upper left")
    return result


def errors_by_threshold(scores: np.ndarray, curves: ErrorCurves) -> Figure:
    """Both error rates against the threshold, with their intervals."""
    result = figure(width=6.4)
    (axes,) = result.axes
    floor = 0.3 / max(curves.fmr.trials, curves.fnmr.trials)
    for name, curve, colour in (
        ("strangers", curves.fmr, IMPOSTOR),
        ("one person", curves.fnmr, GENUINE),
    ):
        seen = np.flatnonzero(curve.errors > 0)
        low = np.maximum(curve.low[seen], floor)
        axes.fill_between(scores[seen], low, curve.high[seen], color=colour, alpha=0.25)
        axes.plot(scores[seen], curve.errors[seen] / curve.trials, color=colour, label=name)
    axes.set(yscale="log", ylim=(floor, 1), xlabel="threshold", ylabel="error rate")
    axes.legend(frameon=False)
    return result


def held_out_trade_off(curves: ErrorCurves, targets: Sequence[Threshold]) -> Figure:
    """FNMR against FMR, with the given targets as dots."""
    result = figure()
    (axes,) = result.axes
    fmr, fnmr = (curve.errors / max(curve.trials, 1) for curve in (curves.fmr, curves.fnmr))
    seen = (fmr > 0) & (fnmr > 0)
    axes.plot(fmr[seen], fnmr[seen], color=COLOURS[0])
    dots = [(t.fmr.value, t.fnmr.value) for t in targets if t.fmr.value > 0 and t.fnmr.value > 0]
    if dots:
        axes.plot(*zip(*dots, strict=True), "o", color=COLOURS[0])
    axes.set(xscale="log", yscale="log")
    axes.set(xlabel="false-match rate", ylabel="false non-match rate")
    return result


def reliability(rows: Sequence[Sequence[float]]) -> Figure:
    """Promised against observed likelihood ratios, both as log10."""
    result = figure()
    (axes,) = result.axes
    edge = max([1.0, *(abs(value) for row in rows for value in row[:2])]) * 1.1
    axes.plot((-edge, edge), (-edge, edge), color="black", linewidth=0.8, linestyle="--")
    axes.plot([row[0] for row in rows], [row[1] for row in rows], marker="o", color=COLOURS[0])
    axes.set(xlabel="promised, log10", ylabel="observed, log10")
    return result


def recall_curves(recalls: Mapping[str, Mapping[int, float]]) -> Figure:
    result = figure()
    (axes,) = result.axes
    for colour, (name, values) in zip(COLOURS, recalls.items(), strict=False):
        axes.plot(list(values), list(values.values()), marker="o", color=colour, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(KS, [str(k) for k in KS])
    axes.set(xlabel="K", ylabel="R@K", title="Retrieval")
    axes.legend(frameon=False)
    return result


def histories(runs: Mapping[str, Sequence[Mapping[str, float]]]) -> Figure:
    """Training loss, and R@1 on ``val``, over epochs."""
    result = figure(2)
    for axes, name in zip(result.axes, ("loss", "R@1"), strict=True):
        for colour, (label, rows) in zip(COLOURS, runs.items(), strict=False):
            points = [(row["epoch"], row[name]) for row in rows if name in row]
            points = [(x, y) for x, y in points if np.isfinite(y)]
            if points:
                axes.plot(*zip(*points, strict=True), color=colour, label=label)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set(xlabel="epoch", ylabel=name if name == "loss" else f"{name} on val")
    handles, labels = result.axes[1].get_legend_handles_labels()
    result.legend(handles, labels, loc="outside right center", frameon=False, fontsize=8)
    return result


def dots(
    values: Mapping[str, tuple[float, float]], ylabel: str, title: str, before: float | None = None
) -> Figure:
    """Mean and spread for each name, as a point with an error bar; a dashed line at ``before``."""
    result = figure(width=6.4)
    (axes,) = result.axes
    # Points, not bars: the axis need not start at zero, and differences are small.
    for colour, (name, (mean, spread)) in zip(COLOURS * 2, values.items(), strict=False):
        axes.errorbar([name], [mean], [spread], marker="o", color=colour, capsize=4)
    if before is not None:
        axes.axhline(before, color="black", linestyle="--", linewidth=0.8, label="untrained")
        axes.legend(frameon=False)
    axes.tick_params(axis="x", rotation=25)
    axes.set_title(textwrap.fill(title, 95), fontsize=8)
    axes.set_ylabel(ylabel)
    return result


def neighbour_grid(
    images: np.ndarray, labels: np.ndarray, neighbours: np.ndarray, queries: Sequence[int]
) -> Figure:
    """One row per query: the query and its nearest ``neighbours``, wrong ones framed in red."""
    count = min(6, neighbours.shape[1])
    result = figure(count + 1, len(queries), 1.1, 1.15)
    grid = np.array(result.axes).reshape(len(queries), count + 1)
    for line, query in zip(grid, queries, strict=True):
        for place, row in enumerate((query, *neighbours[query, :count])):
            wrong = labels[row] != labels[query]
            _picture(line[place], images[row], RED if wrong else None)
    grid[0, 0].set_title("query", fontsize=8)
    return result


def pair_grid(images: np.ndarray, pairs: Sequence[ScoredPair], title: str) -> Figure:
    """One column per pair: two pictures and their score."""
    result = figure(max(1, len(pairs)), 2, 1.1, 1.25)
    grid = np.array(result.axes).reshape(2, -1)
    for column, pair in enumerate(pairs):
        _picture(grid[0, column], images[pair.first], None)
        _picture(grid[1, column], images[pair.second], None)
        grid[0, column].set_title(f"{pair.score:.2f}", fontsize=8)
    result.suptitle(title, fontsize=9)
    return result


def _picture(axes: Axes, image: np.ndarray, frame: str | None) -> None:
    axes.imshow(image)
    axes.set_xticks([])
    axes.set_yticks([])
    axes.grid(False)
    for spine in axes.spines.values():
        spine.set_visible(frame is not None)
        spine.set_color(frame or "none")
        spine.set_linewidth(3)
