"""Turn a calibration into the two curves that the page draws."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from app.ui.cards.plots import Curves

if TYPE_CHECKING:
    from model.calibration import Calibration

_KERNEL = np.array([1, 4, 6, 4, 1]) / 16


def curves_of(calibration: Calibration) -> Curves:
    """Compute densities from the calibration's stored pair counts, smoothed over five bins."""
    histograms, summary = calibration.histograms, calibration.summary
    edges = np.asarray(histograms.edges, float)
    widths = np.diff(edges)

    def density(counts: tuple[int, ...]) -> np.ndarray:
        smooth = np.convolve(np.asarray(counts, float), _KERNEL, "same")
        return smooth / max(smooth.sum(), 1.0) / widths

    return Curves(
        scores=(edges[:-1] + edges[1:]) / 2,
        genuine=density(histograms.genuine),
        impostor=density(histograms.impostor),
        genuine_mean=summary.genuine.mean,
        impostor_mean=summary.impostor.mean,
        d_prime=summary.d_prime.value,
    )
