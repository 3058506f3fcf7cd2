"""Scores with known error rates, and faces, of people (not pairs) drawn at random."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from model.calibration import Calibration
from model.calibration.pairs.person_counts import PersonCounter, PersonCounts

SHAPE = 12.0
"""Of the gamma family: skewness 0.6 for a score, 2.1 for what one person adds to it."""


@dataclass(frozen=True)
class ScoreModel:
    """Stranger and same-person scores made of a part per person and a part per pair.

    Attributes:
        family: ``normal``, ``gamma`` or ``t``: the shape of a single pair's score.
        person: Share of the variance that comes from the people and not from the pair.
        shift: How much higher same-person scores are.
    """

    family: str
    person: float
    shift: float = 3.0

    def draw(self, people: int, rng: np.random.Generator) -> tuple[np.ndarray, ...]:
        """Returns ``(first, second, stranger scores, person, same-person scores)``."""
        sizes = rng.integers(1, 6, people)
        owner = np.repeat(np.arange(people), sizes)
        left, right = np.triu_indices(len(owner), 1)
        first, second = owner[left], owner[right]
        apart = first != second
        mated = first[~apart]
        first, second = first[apart], second[apart]
        strangers = self._scores(first, second, people, rng)
        same = self._scores(mated, mated, people, rng) + self.shift
        return first, second, strangers, mated, same

    def _scores(
        self, first: np.ndarray, second: np.ndarray, people: int, rng: np.random.Generator
    ) -> np.ndarray:
        pairs, share = len(first), self.person
        one = first is second
        if self.family == "gamma":
            shape = SHAPE
            part = rng.gamma(shape * share / (1 if one else 2), size=people)
            noise = rng.gamma(shape * (1 - share), size=pairs)
            both = part[first] if one else part[first] + part[second]
            return both + noise
        part = rng.normal(size=people) * np.sqrt(share / (1 if one else 2))
        both = part[first] if one else part[first] + part[second]
        value = both + rng.normal(size=pairs) * np.sqrt(1 - share)
        if self.family == "t":
            value = value / np.sqrt(rng.chisquare(4, size=pairs) / 4)
        return value

    @property
    def marginal(self) -> stats.rv_continuous:
        return {"normal": stats.norm(), "gamma": stats.gamma(SHAPE), "t": stats.t(4)}[self.family]

    def threshold(self, fmr: float) -> float:
        return float(self.marginal.isf(fmr))

    def fnmr(self, threshold: float) -> float:
        return float(self.marginal.cdf(threshold - self.shift))


MODELS = {
    "gaussian": ScoreModel("normal", 0.02),
    "skewed": ScoreModel("gamma", 0.15, shift=9.0),
    "heavy tail": ScoreModel("t", 0.15),
    "identity-correlated": ScoreModel("normal", 0.45),
}


def count(draw: tuple[np.ndarray, ...], knots: np.ndarray, people: int) -> PersonCounts:
    first, second, strangers, person, same = draw
    counter = PersonCounter(people, len(knots), 1)
    counter.add_impostor(first, second, 0, np.searchsorted(knots, strangers, side="right"))
    counter.add_genuine(person, 0, np.searchsorted(knots, same, side="right"))
    return counter.results()[0]


def faces(
    people: int, seed: int, noise: float = 1.0, world: int = 0
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, labels and qualities of people; poor photos are nearer to a common face."""
    rng = np.random.default_rng(seed)
    common = np.random.default_rng(world).normal(size=32)
    labels = np.repeat(np.arange(people), rng.integers(1, 6, people))
    quality = rng.random(len(labels))
    vectors = rng.normal(size=(people, 32))[labels]
    vectors = vectors + noise * rng.normal(size=vectors.shape)
    vectors += np.where(quality < 0.2, 1.2, 0.0)[:, None] * common
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), labels, quality


def fit(people: int = 300, seed: int = 1, **options) -> Calibration:
    """A calibration fitted on such faces."""
    vectors, labels, quality = faces(people, seed)
    options = {"quality": quality, "model_id": "m" * 64, **options}
    return Calibration.fit(vectors, labels, protocol="drawn", data_fingerprint="f", **options)
