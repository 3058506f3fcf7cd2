"""Error rates by kind of photo: originals, and copies degraded in known ways."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.intervals import false_match_curve, false_non_match_curve
from model.calibration.pairs.person_counts import PersonCounter, PersonCounts
from model.calibration.pairs.scores import GRID, Collection, tiles, to_grid
from model.calibration.rates import Rates
from model.calibration.types import KindRates

WHOLE = "whole"
TARGETS = (1e-2, 1e-3, 1e-4)
TARGET_FNMR = 0.01
BELOW = np.array([-0.5, -0.4, -0.3, -0.25, -0.2, -0.15, -0.1, -0.05, 0.0])
"""Offsets from a threshold at which pairs are also counted: with few errors, an interval uses the
effective size at lower scores."""

NEVER = 4 * GRID
"""A grid place above any score."""


@dataclass(frozen=True, eq=False)
class Copies:
    """Copies of calibration photos with realistic defects.

    Attributes:
        embeddings: float32 ``(M, D)`` unit vectors.
        of: int ``(M,)`` row of the original photo.
        quality: ``(M,)`` quality scores in ``[0, 1]``.
        kinds: ``(M,)`` names of the defects.
    """

    embeddings: np.ndarray
    of: np.ndarray
    quality: np.ndarray
    kinds: np.ndarray

    def drawn(self, rows: np.ndarray) -> Copies:
        """Select the copies of the photos ``rows`` (ascending) and renumber ``of`` to match."""
        kept = np.isin(self.of, rows)
        return Copies(
            self.embeddings[kept],
            np.searchsorted(rows, self.of[kept]),
            self.quality[kept],
            self.kinds[kept],
        )


def by_kind(
    collection: Collection, quality: np.ndarray, kinds: np.ndarray, rates: Rates
) -> tuple[KindRates, ...]:
    """Measure decisions on pairs of two photos of one kind, on the held-out half.

    Args:
        collection: All photos and copies.
        quality: ``(N,)`` in the collection's order.
        kinds: ``(N,)`` names in the collection's order.
        rates: Source of the thresholds, which depend on quality.
    """
    held_out = collection.half[collection.person] == 1
    classes = _classes(quality, rates)
    found = []
    for kind in dict.fromkeys(kinds.tolist()):
        rows = np.flatnonzero(held_out & (kinds == kind))
        part = Collection.of(
            collection.vectors[rows],
            collection.person[rows],
            np.zeros(len(rows), int),
            collection.meeting[rows],
            collection.source[rows],
        )
        for target in TARGETS:
            answers = _answers(part, classes[rows][part.order], rates, target)
            if answers is not None:
                found.append(KindRates(kind, target, part.people, *answers))
    return tuple(found)


def _classes(quality: np.ndarray, rates: Rates) -> np.ndarray:
    """Quality class of each photo: 0 if too poor to judge, 1 for the poorest bin, and so on."""
    bins = rates.quality_bins
    return np.searchsorted([bins[0].low, *(each.high for each in bins[:-1])], quality, side="right")


def _answers(part: Collection, classes: np.ndarray, rates: Rates, target: float) -> tuple | None:
    limits = [rates.limits(target, TARGET_FNMR, each.low) for each in rates.quality_bins]
    accept, reject = (to_grid(np.array(column)) for column in zip(*limits, strict=True))
    same = _counts(part, classes, np.r_[NEVER, accept], BELOW)
    different = _counts(part, classes, np.r_[-NEVER, reject], -BELOW[::-1])
    if not (same.genuine.any() and same.impostor.any()):
        return None
    return (
        false_match_curve(same).at(len(BELOW) - 1),
        false_non_match_curve(same).at(len(BELOW) - 1),
        false_non_match_curve(different).at(0),
    )


def _counts(
    part: Collection, classes: np.ndarray, thresholds: np.ndarray, offsets: np.ndarray
) -> PersonCounts:
    """Count pairs by the distance of their score to the threshold for the poorer photo."""
    knots = np.rint(offsets * GRID).astype(np.int64)
    counter = PersonCounter(part.people, len(knots), 1)
    for tile in tiles(part):
        poorer = np.minimum(classes[tile.rows], classes[tile.cols])
        bins = np.searchsorted(knots, tile.index - thresholds[poorer], side="right")
        first, second = part.person[tile.rows], part.person[tile.cols]
        mated = first == second
        zeros = np.zeros(len(bins), np.int64)
        counter.add_genuine(first[mated], zeros[mated], bins[mated])
        apart = ~mated
        counter.add_impostor(first[apart], second[apart], zeros[apart], bins[apart])
    return counter.results()[0]
