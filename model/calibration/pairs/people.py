"""Which people and photos a calibration uses."""

from __future__ import annotations

import numpy as np

from model.errors import CalibrationError

MIN_PEOPLE = 8
STRANGER_PHOTOS = 3


def draw_photos(
    labels: np.ndarray, max_photos: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the photos to measure on, so that no person dominates the rates.

    Same-person pairs grow with the square of a person's photos: one man has 58% of them in LFW.
    Impostor pairs of two people grow with the product: two brothers with ten photos each count a
    hundred times, and their family resemblance would raise the false-match rate.

    Args:
        labels: ``(N,)``, equal for photos of one person.
        max_photos: Most photos per person; None for all photos and all pairs.

    Returns:
        The chosen rows, ascending, and a mask of those also used in impostor pairs, at most
        `STRANGER_PHOTOS` per person.
    """
    if max_photos is None:
        return np.arange(len(labels)), np.ones(len(labels), bool)
    if max_photos < 2:
        raise ValueError(f"max_photos is {max_photos}; it takes 2 photos to make a pair")
    ranks = ranks_within(labels, seed)
    rows = np.flatnonzero(ranks < max_photos)
    return rows, ranks[rows] < STRANGER_PHOTOS


def ranks_within(labels: np.ndarray, seed: int) -> np.ndarray:
    """Rank each photo from 0 among its person's photos, in random order."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    ranked = labels[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    sizes = np.diff(np.r_[starts, len(ranked)])
    ranks = np.empty(len(ranked), np.int64)
    ranks[order] = np.arange(len(ranked)) - np.repeat(starts, sizes)
    return ranks


def split_people(labels: np.ndarray, seed: int) -> np.ndarray:
    """Split people into two halves with about as many photos each.

    Returns:
        int ``(N,)`` of 0 or 1: the half of each photo's person.

    Raises:
        CalibrationError: There are fewer than `MIN_PEOPLE` people.
    """
    people, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(people) < MIN_PEOPLE:
        raise CalibrationError(
            f"{len(people)} people are too few to calibrate. At least {MIN_PEOPLE} are needed, "
            "and thousands to measure a false-match rate of 1 in 100,000."
        )
    rng = np.random.default_rng(seed)
    ranked = np.lexsort([rng.random(len(people)), -counts])
    half = np.empty(len(people), int)
    for start in range(0, len(people), 2):
        couple = ranked[start : start + 2]
        half[couple] = rng.permutation(2)[: len(couple)]
    return half[place]
