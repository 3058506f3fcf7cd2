"""Score every pair of a photo collection, tile by tile, and count the scores.

Scores are not stored: 13,000 photos make 87 million pairs. Only a fine histogram is kept and, for
each person, how many pairs reach each of a few hundred scores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

GRID = 2**20
"""Steps per unit of score; scores are rounded down to about a millionth."""

TILE_PHOTOS = 1024

Progress = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Sample:
    """Distinct ascending scores with their counts.

    Attributes:
        values: float64 ``(V,)``, strictly ascending.
        genuine: int64 ``(V,)``, same-person pairs at each value.
        impostor: int64 ``(V,)``, stranger pairs at each value.
    """

    values: np.ndarray
    genuine: np.ndarray
    impostor: np.ndarray

    @classmethod
    def of(cls, genuine: np.ndarray, impostor: np.ndarray) -> Sample:
        """Count two plain arrays of scores."""
        genuine, impostor = np.asarray(genuine, float), np.asarray(impostor, float)
        values, places = np.unique(np.concatenate([genuine, impostor]), return_inverse=True)
        split = len(genuine)
        return cls(
            values,
            np.bincount(places[:split], minlength=len(values)),
            np.bincount(places[split:], minlength=len(values)),
        )

    @property
    def false_matches(self) -> np.ndarray:
        """Stranger pairs at or above each value, int64 ``(V,)``."""
        return self.impostor[::-1].cumsum()[::-1]

    @property
    def false_non_matches(self) -> np.ndarray:
        """Same-person pairs below each value, int64 ``(V,)``."""
        return self.genuine.cumsum() - self.genuine

    def __add__(self, other: Sample) -> Sample:
        values = np.union1d(self.values, other.values)
        counts = np.zeros((2, len(values)), np.int64)
        for part in (self, other):
            at = np.searchsorted(values, part.values)
            counts[0, at] += part.genuine
            counts[1, at] += part.impostor
        return Sample(values, *counts)


@dataclass(frozen=True, eq=False)
class Collection:
    """Embeddings sorted by half, then by person.

    Attributes:
        vectors: float32 ``(N, D)`` unit vectors.
        person: int ``(N,)``, ascending from 0.
        half: int ``(P,)`` of 0 or 1 per person, ascending.
        order: int ``(N,)``, the index of each row in the caller's arrays.
        meeting: bool ``(N,)``, whether a photo is also used in stranger pairs.
        source: int ``(N,)``, equal for copies of one photo; they are not paired.
    """

    vectors: np.ndarray
    person: np.ndarray
    half: np.ndarray
    order: np.ndarray
    meeting: np.ndarray
    source: np.ndarray

    @classmethod
    def of(
        cls,
        embeddings: np.ndarray,
        labels: np.ndarray,
        half: np.ndarray,
        meeting: np.ndarray | None = None,
        source: np.ndarray | None = None,
    ) -> Collection:
        """Sort photos by half, then person.

        Args:
            embeddings: ``(N, D)`` unit vectors.
            labels: ``(N,)`` person of each photo, any integers.
            half: ``(N,)`` of 0 or 1, equal for all photos of a person.
            meeting: ``(N,)`` mask of the photos used in stranger pairs; None for all.
            source: ``(N,)`` equal for copies of one photo; None if there are no copies.
        """
        order = np.lexsort([labels, half])
        sorted_labels = np.asarray(labels)[order]
        starts = np.r_[True, sorted_labels[1:] != sorted_labels[:-1]]
        return cls(
            np.ascontiguousarray(np.asarray(embeddings)[order], np.float32),
            np.cumsum(starts) - 1,
            np.asarray(half)[order][starts],
            order,
            np.ones(len(order), bool) if meeting is None else np.asarray(meeting, bool)[order],
            order if source is None else np.asarray(source)[order],
        )

    @property
    def people(self) -> int:
        return len(self.half)

    @property
    def pairs(self) -> int:
        own = np.bincount(self.person)
        met = np.bincount(self.person[self.meeting])
        return int((own * (own - 1)).sum() + met.sum() ** 2 - (met**2).sum()) // 2

    def tile_bounds(self) -> list[int]:
        """Row numbers that split the photos into tiles, between people and between halves."""
        starts = np.flatnonzero(np.r_[True, self.person[1:] != self.person[:-1]])
        stops = np.r_[starts[1:], len(self.person)]
        bounds = [0]
        for person, (start, stop) in enumerate(zip(starts, stops, strict=True)):
            full = stop - bounds[-1] > TILE_PHOTOS
            turns = person > 0 and self.half[person] != self.half[person - 1]
            if start > bounds[-1] and (full or turns):
                bounds.append(int(start))
        return [*bounds, len(self.person)]


@dataclass(frozen=True, eq=False)
class Tile:
    """A flattened rectangle of pairs: each pair once, no photo with itself.

    Attributes:
        rows, cols: int32 ``(K,)`` row numbers of the two photos in the collection.
        index: int32 ``(K,)`` scores on the grid, 0 for -1 and ``2 * GRID`` for 1.
        diagonal: Whether the tile may hold same-person pairs; other tiles hold none.
    """

    rows: np.ndarray
    cols: np.ndarray
    index: np.ndarray
    diagonal: bool


def to_grid(scores: np.ndarray) -> np.ndarray:
    """Convert cosines to int32 grid places.

    ``place >= to_grid(t)`` if and only if ``score >= t``, for ``t`` on the grid.
    """
    return np.floor(np.clip(scores, -1, 1) * np.float32(GRID)).astype(np.int32) + GRID


def from_grid(places: np.ndarray) -> np.ndarray:
    """Convert grid places to float64 scores, the lower edge of each."""
    return (np.asarray(places, np.float64) - GRID) / GRID


def tiles(collection: Collection, progress: Progress | None = None) -> Iterator[Tile]:
    """Yield same-person pairs and the stranger pairs of ``meeting`` photos, about 1024 x 1024 each.

    Tiles are split between people, so that all pairs of any two people are in one tile.
    """
    person, meeting = collection.person, collection.meeting
    photos = np.arange(len(person), dtype=np.int32)
    spans = [photos[top:bottom] for top, bottom in pairwise(collection.tile_bounds())]
    done, total = 0, collection.pairs
    for number, own in enumerate(spans):
        for others in spans[number:]:
            diagonal = others is own
            rows, cols = (own, own) if diagonal else (own[meeting[own]], others[meeting[others]])
            places = to_grid(collection.vectors[rows] @ collection.vectors[cols].T)
            rows, cols = np.broadcast_arrays(rows[:, None], cols[None, :])
            if diagonal:
                met = (person[rows] == person[cols]) | (meeting[rows] & meeting[cols])
                source = collection.source
                keep = (rows < cols) & met & (source[rows] != source[cols])
                tile = Tile(rows[keep], cols[keep], places[keep], True)
            else:
                tile = Tile(rows.ravel(), cols.ravel(), places.ravel(), False)
            if len(tile.index):  # a single photo on the diagonal has no pair
                yield tile
            done += len(tile.index)
            if progress:
                progress(done, total)


def histograms(collection: Collection, progress: Progress | None = None) -> list[Sample]:
    """Count scores within half 0, within half 1, and across the halves, in this order."""
    counts = np.zeros((3, 2, 2 * GRID + 1), np.int64)
    for tile in tiles(collection, progress):
        first, last = (collection.half[collection.person[at[0]]] for at in (tile.rows, tile.cols))
        part = counts[2 if first != last else first]
        same = np.zeros(0, np.int32)
        strangers = tile.index
        if tile.diagonal:
            mated = collection.person[tile.rows] == collection.person[tile.cols]
            same, strangers = tile.index[mated], tile.index[~mated]
        part[0] += np.bincount(same, minlength=part.shape[1])
        part[1] += np.bincount(strangers, minlength=part.shape[1])
    samples = []
    for genuine, impostor in counts:
        used = np.flatnonzero(genuine + impostor)
        samples.append(Sample(from_grid(used), genuine[used], impostor[used]))
    return samples
