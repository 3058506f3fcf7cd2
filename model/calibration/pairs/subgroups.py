"""Error rates for subsets of the pairs: by photo quality, and by groups the user named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from model.calibration.pairs.person_counts import PersonCounts, count_people
from model.calibration.pairs.scores import Collection, Progress, from_grid, to_grid
from model.calibration.summary import error_curves
from model.calibration.types import ErrorCurves, GroupRates, QualityBin, Threshold

MIN_GROUP_PEOPLE = 20
"""Groups with fewer people than this get no rate."""

QUALITY_SHARES = (1 - (2 / 3) ** 0.5, 1 - (1 / 3) ** 0.5)
"""Quantiles of photo quality that put a third of all pairs, by the poorer photo, into each bin."""

COPIES_SHARES = (0.1, 0.25, 0.5)
"""The same when half of the photos are degraded copies; the poorest tenth has its own bin."""

TOO_POOR_SHARE = 1 / 200
"""Photos in the lowest 0.5% of calibration quality have no known error rate."""


def by_quality(
    collection: Collection,
    knots: np.ndarray,
    quality: np.ndarray,
    progress: Progress | None,
    *,
    copies: bool = False,
) -> tuple[QualityBin, ...]:
    """Measure error rates by the lower quality of the two photos.

    The lowest bin starts at the quantile `TOO_POOR_SHARE` but also counts the few pairs below it.
    Two poor photos cause more false matches than a poor and a good one. With copies there are
    enough photos of each quality, so false matches are then counted only if both photos are in
    the bin: the worst case.
    """
    quality = np.asarray(quality, float)[collection.order]
    shares = COPIES_SHARES if copies else QUALITY_SHARES
    floor, *inner = np.quantile(quality, (TOO_POOR_SHARE, *shares))
    inner = np.unique(inner)
    inner = inner[(inner > floor) & (inner <= quality.max())]
    classes = np.searchsorted(inner, quality, side="right")
    numbers = np.arange(len(inner) + 1)
    table = np.minimum.outer(numbers, numbers)
    if copies:
        table = table + len(numbers) * np.eye(len(numbers), dtype=int)
    counts = count_people(collection, knots, classes, table, progress)
    if copies:  # first the mixed pairs of each bin except the best, then the pairs within each
        inside = counts[len(numbers) :]
        mixed = [*counts[: len(numbers) - 1], None]
        curves = [_similar(pairs, others) for pairs, others in zip(inside, mixed, strict=True)]
    else:
        curves = [error_curves(part) for part in counts]
    edges = np.r_[floor, inner, quality.max()]
    return tuple(
        QualityBin(both.fmr, both.fnmr, float(low), float(high))
        for low, high, both in zip(edges[:-1], edges[1:], curves, strict=True)
    )


def _similar(inside: PersonCounts, mixed: PersonCounts | None) -> ErrorCurves:
    """Count false matches if both photos are in a bin, misses if the poorer one is."""
    genuine = inside.genuine if mixed is None else inside.genuine + mixed.genuine
    return error_curves(replace(inside, genuine=genuine))


def by_group(
    collection: Collection,
    groups: np.ndarray,
    marks: Sequence[Threshold],
    progress: Progress | None,
) -> tuple[GroupRates, ...]:
    """Measure rates within and between groups at each threshold, on the held-out half.

    Args:
        groups: ``(N,)`` names in the caller's order, empty where unknown.
        marks: The global thresholds.
    """
    if not marks:
        return ()
    groups = groups[collection.order]
    held_out = collection.half[collection.person] == 1
    names = sorted(set(groups[held_out].tolist()) - {""})
    part = Collection.of(
        collection.vectors[held_out],
        collection.person[held_out],
        np.zeros(held_out.sum(), int),
        collection.meeting[held_out],
    )
    codes = np.array([names.index(g) if g else len(names) for g in groups[held_out][part.order]])
    members = [
        len(np.unique(part.person[(codes == code) & part.meeting])) for code in range(len(names))
    ]
    first, second = np.triu_indices(len(names))
    table = np.full((len(names) + 1, len(names) + 1), -1)
    table[first, second] = table[second, first] = np.arange(len(first))
    knots = from_grid(np.unique(to_grid(np.array([mark.threshold for mark in marks]))))
    rows = []
    for one, other, counts in zip(
        first, second, count_people(part, knots, codes, table, progress), strict=True
    ):
        curves = error_curves(counts)
        people = int((counts.impostor.sum(axis=1) > 0).sum())
        fewest = min(members[one], members[other])
        mated = int((counts.genuine.sum(axis=1) > 0).sum()) if one == other else 0
        for mark in marks:
            knot = int(np.searchsorted(knots, mark.threshold))
            rows.append(
                GroupRates(
                    (names[one], names[other]),
                    mark.target_fmr,
                    mark.threshold,
                    people,
                    curves.fmr.at(knot) if fewest >= MIN_GROUP_PEOPLE else None,
                    curves.fnmr.at(knot) if mated >= MIN_GROUP_PEOPLE else None,
                )
            )
    return tuple(rows)
