"""Count each person's pairs by score, as input for intervals over people.

Pairs that share a person are not independent, so an interval needs the errors per person. For
``P`` people and ``T`` knots this is a ``P x (T + 1)`` table, plus three sums over couples of people
that measure how strongly the pairs of a couple are correlated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.pairs.scores import GRID, Collection, Progress, tiles, to_grid


@dataclass(frozen=True, eq=False)
class PersonCounts:
    """Pair counts by person for one population of pairs.

    Bin ``0`` holds scores below the first knot, bin ``k`` those in ``[knot[k-1], knot[k])``.
    A stranger pair is counted for both of its people. A couple is two different people. The sums
    below run over all couples, with ``K`` of a couple's ``M`` pairs at or above a knot.

    Attributes:
        genuine: ``(P, T + 1)`` same-person pairs.
        impostor: ``(P, T + 1)`` stranger pairs.
        couple_squares: ``(T,)`` sum of ``K * K`` at each knot.
        couple_products: ``(T,)`` sum of ``K * M`` at each knot.
        couple_sizes: Sum of ``M * M``.
        couples: Number of couples with at least one pair.
    """

    genuine: np.ndarray
    impostor: np.ndarray
    couple_squares: np.ndarray
    couple_products: np.ndarray
    couple_sizes: float
    couples: int

    def __add__(self, other: PersonCounts) -> PersonCounts:
        """Add the counts of populations with disjoint couples."""
        return PersonCounts(
            self.genuine + other.genuine,
            self.impostor + other.impostor,
            self.couple_squares + other.couple_squares,
            self.couple_products + other.couple_products,
            self.couple_sizes + other.couple_sizes,
            self.couples + other.couples,
        )


class PersonCounter:
    """Counts pairs into one `PersonCounts` per population."""

    def __init__(self, people: int, knots: int, populations: int) -> None:
        self.populations = populations
        self.width = knots + 1
        # A power of two, so that sorted keys can be split by shifting instead of dividing.
        self.shift = int(self.width).bit_length()
        self.genuine = np.zeros((people, populations, self.width), np.int64)
        self.impostor = np.zeros((people, populations, self.width), np.int64)
        self.couple_sums = np.zeros((2, populations, self.width))
        self.couple_sizes = np.zeros(populations)
        self.couples = np.zeros(populations, np.int64)

    def add_genuine(self, person: np.ndarray, population: np.ndarray, bins: np.ndarray) -> None:
        self._add(self.genuine, person, population, bins)

    def add_impostor(
        self, first: np.ndarray, second: np.ndarray, population: np.ndarray, bins: np.ndarray
    ) -> None:
        """Add stranger pairs; all pairs of a couple must be in one call.

        Args:
            first, second: ``(K,)`` the two people of each pair, in the same order for a couple.
            population: ``(K,)`` or scalar, the population of each pair.
            bins: ``(K,)`` bin of each pair's score.
        """
        if len(bins) == 0:
            return
        self._add(self.impostor, first, population, bins)
        self._add(self.impostor, second, population, bins)

        low, high = second.min(), second.max()
        couple = (first.astype(np.int64) - first.min()) * (high - low + 1) + (second - low)
        cell = couple * self.populations + population
        top = self.width - 1
        key = (cell << self.shift) | (top - bins)
        key.sort()
        cell, bins = key >> self.shift, top - (key & ((1 << self.shift) - 1))
        starts = np.flatnonzero(np.r_[True, cell[1:] != cell[:-1]])
        sizes = np.diff(np.r_[starts, len(cell)])
        # Within a couple, pairs are now sorted from the highest score down. With weight 2r - 1
        # for the r-th, the weights at or above any score sum to K * K.
        rank = np.arange(1, len(cell) + 1) - np.repeat(starts, sizes)
        population = cell % self.populations
        place = population * self.width + bins
        length = self.populations * self.width
        for sums, weight in zip(
            self.couple_sums, (2.0 * rank - 1, np.repeat(sizes, sizes)), strict=True
        ):
            sums += np.bincount(place, weight, minlength=length).reshape(sums.shape)
        owner = cell[starts] % self.populations
        self.couple_sizes += np.bincount(owner, sizes.astype(float) ** 2, self.populations)
        self.couples += np.bincount(owner, minlength=self.populations)

    def results(self) -> list[PersonCounts]:
        above = self.couple_sums[:, :, ::-1].cumsum(axis=2)[:, :, ::-1]
        return [
            PersonCounts(
                self.genuine[:, at],
                self.impostor[:, at],
                above[0, at, 1:],
                above[1, at, 1:],
                float(self.couple_sizes[at]),
                int(self.couples[at]),
            )
            for at in range(self.populations)
        ]

    def _add(
        self, into: np.ndarray, person: np.ndarray, population: np.ndarray, bins: np.ndarray
    ) -> None:
        if len(bins) == 0:
            return
        low, high = int(person.min()), int(person.max()) + 1
        key = ((person - low) * self.populations + population) * self.width + bins
        counts = np.bincount(key, minlength=(high - low) * self.populations * self.width)
        into[low:high] += counts.reshape(high - low, self.populations, self.width)


def count_people(
    collection: Collection,
    knots: np.ndarray,
    classes: np.ndarray,
    table: np.ndarray,
    progress: Progress | None = None,
) -> list[PersonCounts]:
    """Count all pairs by person, separately for each population of pairs.

    Args:
        knots: float64 ``(T,)`` ascending scores on the grid.
        classes: int ``(N,)`` class of each photo, in the collection's order.
        table: int ``(C, C)`` symmetric: the population of a pair by its photos' classes; -1
            excludes the pair.

    Returns:
        ``table.max() + 1`` counts, one per population.
    """
    bin_of = np.searchsorted(to_grid(knots), np.arange(2 * GRID + 1), side="right").astype(np.int32)
    counter = PersonCounter(collection.people, len(knots), int(table.max()) + 1)
    table = np.asarray(table, np.int64)
    for tile in tiles(collection, progress):
        rows, cols, bins = tile.rows, tile.cols, bin_of[tile.index]
        population = table[classes[rows], classes[cols]]
        if (population < 0).any():
            keep = population >= 0
            rows, cols, bins, population = rows[keep], cols[keep], bins[keep], population[keep]
        first, second = collection.person[rows], collection.person[cols]
        if tile.diagonal:
            mated = first == second
            counter.add_genuine(first[mated], population[mated], bins[mated])
            apart = ~mated
            first, second, population, bins = (
                first[apart],
                second[apart],
                population[apart],
                bins[apart],
            )
        counter.add_impostor(first, second, population, bins)
    return counter.results()
