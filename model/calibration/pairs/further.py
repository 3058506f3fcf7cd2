"""False matches in further collections, on which thresholds must hold too."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.intervals import false_match_curve
from model.calibration.pairs.people import STRANGER_PHOTOS, ranks_within, split_people
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection
from model.calibration.types import FurtherRates

WITHIN_HALVES = np.array([[0, 2], [2, 1]])
"""Population of a pair by the halves of its people; 2 for pairs between the halves."""


@dataclass(frozen=True, eq=False)
class Further:
    """Photos of people of another collection, none of whom the model was trained on.

    Attributes:
        embeddings: float32 ``(N, D)`` unit vectors.
        labels: int ``(N,)``, equal for photos of one person.
    """

    name: str
    embeddings: np.ndarray
    labels: np.ndarray

    def half(self, seed: int = 0) -> np.ndarray:
        """The half of each photo's person; thresholds are chosen on 0 and measured on 1."""
        return split_people(self.labels, seed)

    def rates(self, knots: np.ndarray, seed: int) -> FurtherRates:
        """Count false matches at each knot, in either half of the people."""
        rows = np.flatnonzero(ranks_within(self.labels, seed) < STRANGER_PHOTOS)
        vectors, half = self.embeddings[rows], self.half(seed)[rows]
        collection = Collection.of(vectors, self.labels[rows], half)
        halves_of = collection.half[collection.person]
        fit, held_out, _ = count_people(collection, knots, halves_of, WITHIN_HALVES)
        curves = false_match_curve(fit), false_match_curve(held_out)
        return FurtherRates(self.name, collection.people, *curves)
