"""Learn the cost of each quality measure from same-person pairs.

The model: the log-odds that a same-person pair is among the hardest of its collection are the sum
of the costs of all measures of both photos. Only the order of scores is used, so the scale of a
network's scores does not matter. Each cost is piecewise linear and never falls as its measure gets
worse: logistic regression on ramps between fixed knots, with nonnegative weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy import optimize, special

from training.measure.discards import DIRECTION

HARD = 0.1
"""Share of a collection's same-person pairs, those with the lowest scores, that count as hard."""

RIDGE = 3.0
"""Strength of the ridge penalty, in units of people."""

Stretch = tuple[str, float, float]

KNOTS: dict[str, tuple[float, ...]] = {
    "eye_distance": (6, 8, 10, 13, 17, 22, 30),
    "sharpness": (0.02, 0.04, 0.06, 0.08, 0.11, 0.15, 0.2, 0.3),
    "highlights": (0.05, 0.1, 0.15, 0.2, 0.3, 0.45),
    "midtones": (0.7, 0.8, 0.9),
    "turn": (25, 35, 45, 60, 75),
    "outside": (0, 0.02, 0.05, 0.1, 0.2, 0.3),
    "confidence": (0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.9995, 0.9999),
}
"""Knots between which a cost is linear; the cost is 0 beyond the good end."""

MIN_PEOPLE = 20
"""Fewest people with a photo in or beyond a stretch between two knots for it to be used."""


@dataclass(frozen=True, eq=False)
class JudgedPhotos:
    """Embedded photos and their quality measures.

    Attributes:
        vectors: float32 ``(N, D)`` unit vectors.
        labels: ``(N,)``, equal for photos of one person.
        sources: ``(N,)``, equal for copies of one photo.
        measures: Values ``(N,)`` by name.
    """

    vectors: np.ndarray
    labels: np.ndarray
    sources: np.ndarray
    measures: Mapping[str, np.ndarray]

    def subset(self, rows: np.ndarray) -> JudgedPhotos:
        measures = {name: values[rows] for name, values in self.measures.items()}
        return JudgedPhotos(self.vectors[rows], self.labels[rows], self.sources[rows], measures)


@dataclass(frozen=True, eq=False)
class _Pairs:
    """Same-person pairs of a collection.

    Attributes:
        ramps: ``(K, R)``, the sum of both photos' ramps.
        hard: bool ``(K,)``, True for the hardest pairs.
        weight: ``(K,)``, adding up to 1 for each person.
        people: ``(R,)``, number of people with a photo in or beyond each stretch.
    """

    ramps: np.ndarray
    hard: np.ndarray
    weight: np.ndarray
    people: np.ndarray


def fit_costs(*collections: JudgedPhotos) -> dict[str, list[tuple[float, float]]]:
    """Costs by measure as points ``(value, cost)``, values ascending.

    Args:
        collections: Each has its own hard pairs and intercept; every person has the same weight.
    """
    stretches = [
        (name, low, high) for name, knots in KNOTS.items() for low, high in pairwise(knots)
    ]
    pairs = [_same_person_pairs(photos, stretches) for photos in collections]
    used = np.flatnonzero(np.sum([part.people for part in pairs], axis=0) >= MIN_PEOPLE)
    start = np.r_[np.zeros(len(used)), np.full(len(pairs), -3.0)]
    bounds = [(0, None)] * len(used) + [(None, None)] * len(pairs)
    fitted = optimize.minimize(
        _likelihood, start, (pairs, used), method="L-BFGS-B", jac=True, bounds=bounds
    )
    costs = np.zeros(len(stretches))
    costs[used] = fitted.x[: len(used)]
    by_name: dict[str, list[float]] = {name: [] for name in KNOTS}
    for (name, _, _), cost in zip(stretches, costs, strict=True):
        by_name[name].append(float(cost))
    return {name: _points(name, found) for name, found in by_name.items()}


def _points(name: str, costs: list[float]) -> list[tuple[float, float]]:
    """Cumulative costs from the good end on, as points ``(value, cost)``."""
    if DIRECTION[name] > 0:
        totals = np.r_[np.cumsum(costs[::-1])[::-1], 0.0]
    else:
        totals = np.r_[0.0, np.cumsum(costs)]
    return [
        (float(value), round(float(total), 4))
        for value, total in zip(KNOTS[name], totals, strict=True)
    ]


def _ramps(measures: Mapping[str, np.ndarray], stretches: Sequence[Stretch]) -> np.ndarray:
    """``(N, R)``: rises from 0 at a stretch's good end to 1 at its bad end, constant outside."""
    columns = []
    for name, low, high in stretches:
        share = np.clip((np.asarray(measures[name], float) - low) / (high - low), 0, 1)
        columns.append(1 - share if DIRECTION[name] > 0 else share)
    return np.column_stack(columns)


def _likelihood(
    weights: np.ndarray, pairs: Sequence[_Pairs], used: np.ndarray
) -> tuple[float, np.ndarray]:
    """Penalised negative log-likelihood and its gradient; the last weights are intercepts."""
    costs = weights[: len(used)]
    value, slope = RIDGE * float(costs @ costs) / 2, np.zeros_like(weights)
    slope[: len(used)] = RIDGE * costs
    for number, part in enumerate(pairs, start=len(used)):
        odds = part.ramps[:, used] @ costs + weights[number]
        value += float(part.weight @ (np.logaddexp(0, odds) - part.hard * odds))
        error = part.weight * (special.expit(odds) - part.hard)
        slope[: len(used)] += part.ramps[:, used].T @ error
        slope[number] += error.sum()
    return value, slope


def _same_person_pairs(photos: JudgedPhotos, stretches: Sequence[Stretch]) -> _Pairs:
    ramps = _ramps(photos.measures, stretches)
    people = np.zeros(ramps.shape[1])
    scores, rows, weights = [], [], []
    for label in np.unique(photos.labels):
        group = np.flatnonzero(photos.labels == label)
        first, second = (group[side] for side in np.triu_indices(len(group), 1))
        apart = photos.sources[first] != photos.sources[second]
        first, second = first[apart], second[apart]
        if not len(first):
            continue
        people += (ramps[group] > 0).any(axis=0)
        scores.append((photos.vectors[first] * photos.vectors[second]).sum(axis=1))
        rows.append(ramps[first] + ramps[second])
        weights.append(np.full(len(first), 1 / len(first)))
    score, weight = np.concatenate(scores), np.concatenate(weights)
    order = np.argsort(score)
    share = np.cumsum(weight[order]) / weight.sum()
    hard = score <= score[order[np.searchsorted(share, HARD)]]
    return _Pairs(np.concatenate(rows), hard, weight, people)


def cost(
    costs: Mapping[str, Sequence[tuple[float, float]]], measures: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Total cost of each photo, ``(N,)``."""
    return sum(np.interp(measures[name], *np.array(points).T) for name, points in costs.items())
