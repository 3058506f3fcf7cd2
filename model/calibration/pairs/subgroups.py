"""The same error rates for part of the pairs: by photo quality, and by groups the user named."""

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
"""Photo quantiles that put a third of all pairs into each bin of the lower of two qualities."""

COPIES_SHARES = (0.1, 0.25, 0.5)
"""The same where half of the photos are spoiled copies: the poorest tenth by itself."""

TOO_POOR_SHARE = 1 / 200
"""Of the calibration's photos: what is poorer than all but these has no known error rate."""


def by_quality(
    collection: Collection,
    knots: np.ndarray,
    quality: np.ndarray,
    progress: Progress | None,
    *,
    copies: bool = False,
) -> tuple[QualityBin, ...]:
    """All pairs by the lower quality of the two photos.

    The lowest bin begins at `TOO_POOR_SHARE`, though it counts the few pairs below that too.
    With copies there are photos enough of each quality, and two poor ones are more often taken for
    one person than a poor and a good one: false matches are then counted where both photos are in
    the bin, which is the worst case of its pairs.
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
    if copies:  # first the mixed pairs of each bin but the best, then those inside each
        inside = counts[len(numbers) :]
        mixed = [*counts[: len(numbers) - 1], None]
        curves = [_similar(pairs, others) for pairs, others in zip(inside, mixed, strict=True)]
    else:
        curves = [error_curves(part) for part in counts]
    edges = np.r_[floor, inner, quality.max()]
    return tuple(
        QualityBin(float(low), float(high), both)
        for low, high, both in zip(edges[:-1], edges[1:], curves, strict=True)
    )


def _similar(inside: PersonCounts, mixed: PersonCounts | None) -> ErrorCurves:
    """False matches where both photos are in a bin, misses where the poorer one is."""
    genuine = inside.genuine if mixed is None else inside.genuine + mixed.genuine
    return error_curves(replace(inside, genuine=genuine))


def by_group(
    collection: Collection,
    groups: np.ndarray,
    marks: Sequence[Threshold],
    progress: Progress | None,
) -> tuple[GroupRates, ...]:
    """Rates within and between groups at each mark, on the held-out half.

    Args:
        collection: All photos.
        groups: ``(N,)`` names in the caller's order, empty where unknown.
        marks: The global thresholds.
        progress: Called with pairs done and pairs in all.
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
