"""The plots of a calibration, as inline SVG."""

from __future__ import annotations

import numpy as np

from model.calibration import Calibration, Threshold
from model.wording import one_in
from training.report.svg import Plot


def supported_targets(calibration: Calibration) -> list[Threshold]:
    """Targets from 1 in 100 down that the calibration can measure."""
    return [t for t in calibration.targets if t.supported and t.target_fmr <= 0.01]


def score_plot(calibration: Calibration) -> str:
    """Both distributions, each to its own peak, with the thresholds."""
    drawn = calibration.histograms
    plot = Plot(
        "Score histograms",
        (drawn.edges[0], drawn.edges[-1]),
        (0, 1.3),
        "score",
        "share of the peak",
    )
    for counts, style in ((drawn.impostor, "impostor"), (drawn.genuine, "genuine")):
        peak = max(max(counts), 1)
        plot.steps(drawn.edges, [count / peak for count in counts], style)
    for row, target in enumerate(supported_targets(calibration)):
        plot.mark(target.threshold, one_in(target.target_fmr), row=row)
    return plot.render()


def error_plot(calibration: Calibration) -> str:
    """Both error rates against the threshold, with their intervals."""
    scores = calibration.parts.scores
    curves = calibration.parts.everyone
    floor = 0.3 / max(curves.fmr.trials, curves.fnmr.trials)
    plot = Plot(
        "Error rates by threshold",
        (scores[0], scores[-1]),
        (floor, 1),
        "threshold",
        "error rate",
        y_log=True,
    )
    for curve, style in ((curves.fmr, "impostor"), (curves.fnmr, "genuine")):
        seen = np.flatnonzero(curve.errors > 0)
        low = np.maximum(curve.low[seen], floor)
        plot.band(scores[seen], low, curve.high[seen], style)
        plot.line(scores[seen], curve.errors[seen] / curve.trials, style)
    return plot.render()


def det_plot(calibration: Calibration) -> str:
    """False non-matches against false matches on the held-out half."""
    curves = calibration.parts.held_out
    fmr, fnmr = (c.errors / max(c.trials, 1) for c in (curves.fmr, curves.fnmr))
    seen = (fmr > 0) & (fnmr > 0)
    low_x = 10.0 ** np.floor(np.log10(fmr[seen].min())) if seen.any() else 1e-6
    low_y = 10.0 ** np.floor(np.log10(fnmr[seen].min())) if seen.any() else 1e-4
    plot = Plot(
        "Detection error trade-off",
        (low_x, 1),
        (low_y, 1),
        "false-match rate",
        "false non-match rate",
        x_log=True,
        y_log=True,
    )
    plot.line(fmr[seen], fnmr[seen], "accent")
    for target in calibration.targets:
        if target.supported and target.fmr.value > 0 and target.fnmr.value > 0:
            plot.dot(target.fmr.value, target.fnmr.value, "accent", one_in(target.target_fmr))
    return plot.render()


def reliability_plot(calibration: Calibration) -> str:
    """Promised against observed likelihood ratios on the held-out half."""
    rows = calibration.parts.reliability
    edge = max([1.0, *(abs(value) for row in rows for value in row[:2])]) * 1.1
    plot = Plot(
        "Reliability of likelihood ratios",
        (-edge, edge),
        (-edge, edge),
        "promised, log₁₀",
        "observed, log₁₀",
    )
    plot.line((-edge, edge), (-edge, edge), "thin")
    plot.line([row[0] for row in rows], [row[1] for row in rows], "accent")
    for promised, observed, same, apart in rows:
        plot.dot(promised, observed, "accent", f"{same:,} of one person, {apart:,} of strangers")
    return plot.render()
