"""Extrapolate thresholds for false-match rates that the sample is too small to measure.

Stranger scores above a high threshold follow a generalised Pareto distribution (Pickands, 1975).
The results are extrapolations and are labelled as such.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.pairs.scores import Sample

START_RATE = 1e-3
MIN_PAIRS = 250
SHAPES = (-0.5, 0.4)


@dataclass(frozen=True)
class Tail:
    """Stranger scores above ``start``.

    Attributes:
        start: Score at which the tail begins.
        rate: Fraction of stranger pairs at or above ``start``.
        scale: Scale of the Pareto distribution, in units of score.
        shape: Its shape; if negative, the scores have an upper limit.
    """

    start: float
    rate: float
    scale: float
    shape: float

    def score_at(self, rate: float) -> float:
        """Return the score with this false-match rate; ``rate`` must be below ``self.rate``."""
        ratio = rate / self.rate
        if abs(self.shape) < 1e-9:
            return self.start - self.scale * float(np.log(ratio))
        return self.start + self.scale / self.shape * (ratio**-self.shape - 1)


def fit_tail(sample: Sample) -> Tail:
    """Fit the tail of the stranger scores by probability-weighted moments (Hosking, 1987)."""
    above = sample.false_matches
    total = int(above[0])
    wanted = min(max(START_RATE * total, MIN_PAIRS), total / 2)
    first = int(np.flatnonzero(above >= wanted)[-1])
    start, pairs = float(sample.values[first]), sample.impostor[first:]
    excess = sample.values[first:] - start
    count = int(pairs.sum())
    mean = float(excess @ pairs) / count
    survival = (np.r_[above[first + 1 :], 0] + (pairs - 1) / 2) / max(count - 1, 1)
    weighted = float((excess * survival) @ pairs) / count
    gap = mean - 2 * weighted
    if mean <= 0 or gap <= 0:
        return Tail(start, count / total, max(mean, 1e-6), 0.0)
    shape = float(np.clip(2 - mean / gap, *SHAPES))
    return Tail(start, count / total, mean * (1 - shape), shape)
