"""The same error rates for part of the pairs: by photo quality, and by groups the user named."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Progress, from_grid, to_grid
from model.calibration.summary import error_curves
from model.calibration.types import GroupRates, QualityBin, Threshold

MIN_GROUP_PEOPLE = 20
"""Groups with fewer people than this get no rate."""

QUALITY_SHARES = (1 - (2 / 3) ** 0.5, 1 - (1 / 3) ** 0.5)
"""Photo quantiles that put a third of all pairs into each bin of the lower of two qualities."""

TOO_POOR_SHARE = 1 / 200
"""Of the calibration's photos: what is poorer than all but these has no known error rate."""


def by_quality(
    collection: Collection, knots: np.ndarray, quality: np.ndarray, progress: Progress | None
) -> tuple[QualityBin, ...]:
    """All pairs in three bins of about as many, by the lower quality of the two photos.

    The lowest bin begins at `TOO_POOR_SHARE`, though it counts the few pairs below that too.
    """
    quality = np.asarray(quality, float)[collection.order]
    floor, *inner = np.quantile(quality, (TOO_POOR_SHARE, *QUALITY_SHARES))
    inner = np.unique(inner)
    inner = inner[(inner > floor) & (inner <= quality.max())]
    classes = np.searchsorted(inner, quality, side="right")
    numbers = np.arange(len(inner) + 1)
    counts = count_people(collection, knots, classes, np.minimum.outer(numbers, numbers), progress)
    edges = np.r_[floor, inner, quality.max()]
    return tuple(
        QualityBin(float(low), float(high), error_curves(part))
        for low, high, part in zip(edges[:-1], edges[1:], counts, strict=True)
    )


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
