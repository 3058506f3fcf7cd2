"""Metrics of an embedding: recall, d' and error rates, with confidence intervals."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from model.calibration.pairs.person_counts import PersonCounts, count_people
from model.calibration.pairs.scores import Collection, Sample, histograms
from model.calibration.summary import d_primes, equal_error, equal_errors
from training.measure.retrieval import Recall, recall

FMRS = (1e-1, 1e-2, 1e-3, 1e-4)
MIN_FALSE_MATCHES = 30
"""Fewest expected false matches for a supported rate (Doddington's rule of thirty)."""

KNOTS = 2000
"""Most scores at which the bootstrap counts pairs per person."""


def pair_scores(embeddings: np.ndarray, labels: np.ndarray) -> Sample:
    """Scores of all pairs of rows, as counts; single scores are not stored."""
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), np.int64))
    return histograms(collection)[0]


def d_prime(sample: Sample) -> float:
    """Decidability index ``(mean_gen - mean_imp) / sqrt((var_gen + var_imp) / 2)``."""
    return float(d_primes(sample.genuine[None], sample.impostor[None], sample.values)[0])


def equal_error_rate(sample: Sample) -> float:
    """Equal error rate by the rule of the FVC contests; NaN without pairs of both kinds."""
    if not (sample.genuine.any() and sample.impostor.any()):
        return float("nan")
    return equal_error(sample)[0]


def fnmr_at(sample: Sample, fmr: float) -> float | None:
    """False non-match rate at the lowest threshold whose false-match rate is at most ``fmr``.

    Returns:
        The rate, or None if fewer than thirty false matches are expected (not supported).
    """
    if sample.impostor.sum() * fmr < MIN_FALSE_MATCHES:
        return None
    return float(_fnmr(sample.genuine, sample.impostor, fmr))


def ten_fold(scores: np.ndarray, same: np.ndarray, fold: np.ndarray) -> tuple[float, float]:
    """LFW accuracy: each fold at the threshold that is best on the other folds.

    Returns:
        Mean accuracy and its standard error over the folds.
    """
    accuracies = []
    for held in np.unique(fold):
        rest = fold != held
        threshold = _best_threshold(scores[rest], same[rest])
        accuracies.append(np.mean((scores[~rest] >= threshold) == same[~rest]))
    return float(np.mean(accuracies)), float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies)))


@dataclass(frozen=True, eq=False)
class Measured:
    """Metrics of one network on one sample.

    Attributes:
        counts: Numbers of photos, people, queries and pairs.
        values: Value of each metric; None if the sample does not support it.
        draws: Bootstrap values of each metric, ``(replicates,)``. The same seed draws the same
            people for every network, so draws of two networks may be subtracted.
    """

    counts: dict[str, int]
    values: dict[str, float | None]
    draws: dict[str, np.ndarray]


def evaluate(
    embeddings: np.ndarray,
    labels: np.ndarray,
    *,
    against: np.ndarray | None = None,
    replicates: int = 200,
    seed: int = 0,
) -> dict[str, Any]:
    """All metrics, ready for JSON.

    Args:
        embeddings: float32 ``(N, D)`` unit vectors.
        labels: ``(N,)``.
        against: Embeddings of the same photos by another network, to subtract its metrics.
        replicates: Bootstrap samples of identities; 0 for no intervals.

    Returns:
        ``n``, ``classes``, ``genuine_pairs``, ``impostor_pairs``; ``metrics`` with ``R@K``,
        ``d_prime``, ``eer``, ``fnmr`` as ``{"value": x, "low": l, "high": h}`` (95%), None if
        the sample does not support it; with ``against`` also ``difference`` of the same form. The
        intervals of ``R@K`` resample only the people of the queries, not of the gallery.
    """
    measured = measure(embeddings, labels, replicates, seed)
    report = {**measured.counts, "metrics": _entries(measured.values, measured.draws)}
    if against is not None:
        other = measure(against, labels, replicates, seed)
        report["difference"] = _entries(
            {name: _minus(value, other.values[name]) for name, value in measured.values.items()},
            {name: draws - other.draws[name] for name, draws in measured.draws.items()},
        )
    return report


def measure(embeddings: np.ndarray, labels: np.ndarray, replicates: int, seed: int) -> Measured:
    labels = np.unique(labels, return_inverse=True)[1]
    retrieved = recall(embeddings, labels)
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), np.int64))
    sample = histograms(collection)[0]
    counts = {
        "n": len(labels),
        "classes": int(labels.max()) + 1,
        "queries": len(retrieved.queries),
        "genuine_pairs": int(sample.genuine.sum()),
        "impostor_pairs": int(sample.impostor.sum()),
    }
    values: dict[str, float | None] = {
        **{f"R@{k}": value for k, value in retrieved.values.items()},
        "d_prime": d_prime(sample),
        "eer": equal_error_rate(sample),
        **{f"fnmr@{fmr:g}": fnmr_at(sample, fmr) for fmr in FMRS},
    }
    draws = {}
    if replicates:
        draws = _bootstrap(retrieved, labels, collection, sample, values, replicates, seed)
    return Measured(counts, values, draws)


def _minus(value: float | None, other: float | None) -> float | None:
    return None if value is None or other is None else value - other


def _entries(
    values: dict[str, float | None], draws: dict[str, np.ndarray]
) -> dict[str, dict[str, float] | None]:
    """Each value with its 95% percentile interval, if there are draws."""
    entries: dict[str, dict[str, float] | None] = {}
    for name, value in values.items():
        entries[name] = None
        if value is not None:
            entries[name] = {"value": value}
            if name in draws and np.isfinite(draws[name]).any():
                low, high = map(float, np.nanpercentile(draws[name], [2.5, 97.5]))
                entries[name] |= {"low": low, "high": high}
    return entries


def _bootstrap(
    retrieved: Recall,
    labels: np.ndarray,
    collection: Collection,
    sample: Sample,
    values: dict[str, float | None],
    replicates: int,
    seed: int,
) -> dict[str, np.ndarray]:
    """Bootstrap values of each metric, resampling identities.

    The weight of a stranger pair is the product of its two people's weights. To first order that
    is ``w_a + w_b - 1``, which needs counts per person only, not per pair of people. For R@K only
    the people of the queries are resampled; the gallery is fixed.
    """
    rng = np.random.default_rng(seed)
    people = int(labels.max()) + 1
    knots = _knots(sample)
    scores = _bin_means(sample, knots)
    (counts,) = count_people(
        collection, knots, np.zeros(len(labels), np.int64), np.zeros((1, 1), np.int64)
    )
    weights = rng.multinomial(people, np.full(people, 1 / people), size=replicates).astype(float)
    hits = np.zeros((people, len(retrieved.ks)))
    np.add.at(hits, labels[retrieved.queries], retrieved.hits)
    asked = weights @ np.bincount(labels[retrieved.queries], minlength=people)
    recalls = weights @ hits / np.where(asked > 0, asked, np.nan)[:, None]
    drawn, whole = _reweighted(counts, weights), _reweighted(counts, np.ones((1, people)))
    draws = {
        **{f"R@{k}": recalls[:, column] for column, k in enumerate(retrieved.ks)},
        "d_prime": d_primes(*drawn, scores),
    }
    readings = {"eer": equal_errors} | {f"fnmr@{fmr:g}": partial(_fnmrs, limit=fmr) for fmr in FMRS}
    for name, read in readings.items():
        # Values come from single scores, draws from bins, so use only the draws' deviation.
        if (value := values[name]) is not None:
            draws[name] = (value + read(*drawn) - read(*whole)).clip(0, 1)
    return draws


def _knots(sample: Sample) -> np.ndarray:
    """All values of a sample, or a selection that is dense where its scores are.

    A quarter of the selection each: quantiles of the genuine and of the stranger scores; log-spaced
    false-match rates, for small rates; equally spaced scores, for the moments.
    """
    values = sample.values
    if len(values) <= KNOTS:
        return values
    steps = np.linspace(0, 1, KNOTS // 4)
    genuine, impostor = sample.genuine.cumsum(), sample.impostor.cumsum()
    places = (
        np.searchsorted(genuine, steps * genuine[-1]),
        np.searchsorted(impostor, steps * impostor[-1]),
        np.searchsorted(impostor, impostor[-1] - impostor[-1] ** steps, side="right"),
        np.searchsorted(values, values[0] + steps * (values[-1] - values[0])),
    )
    return values[np.unique(np.concatenate(places).clip(max=len(values) - 1))]


def _bin_means(sample: Sample, knots: np.ndarray) -> np.ndarray:
    """Mean score of the pairs below the first knot, between neighbours, and above the last."""
    places = np.searchsorted(knots, sample.values, side="right")
    pairs = sample.genuine + sample.impostor
    totals = np.bincount(places, pairs, minlength=len(knots) + 1)
    sums = np.bincount(places, pairs * sample.values, minlength=len(knots) + 1)
    return sums / totals.clip(min=1)


def _reweighted(counts: PersonCounts, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = counts.impostor.sum(0) / 2
    return weights @ counts.genuine, np.maximum(0, total + (weights - 1) @ counts.impostor)


def rates(genuine: np.ndarray, impostor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """FMR and FNMR with the threshold at each value, and above the highest."""
    fmr = np.r_[impostor[::-1].cumsum()[::-1], 0] / max(impostor.sum(), 1e-300)
    fnmr = np.r_[0, genuine.cumsum()] / max(genuine.sum(), 1e-300)
    return fmr, fnmr


def _fnmr(genuine: np.ndarray, impostor: np.ndarray, limit: float) -> float:
    fmr, fnmr = rates(genuine, impostor)
    return fnmr[int(np.argmax(fmr <= limit))]


def _fnmrs(genuine: np.ndarray, impostor: np.ndarray, limit: float) -> np.ndarray:
    return np.array([_fnmr(*pair, limit) for pair in zip(genuine, impostor, strict=True)])


def _best_threshold(scores: np.ndarray, same: np.ndarray) -> float:
    """The threshold with the most right answers, midway between two neighbouring scores."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.r_[0, np.cumsum(np.where(same[order], 1, -1))]
    # No threshold separates equal scores.
    possible = np.r_[True, ranked[1:] < ranked[:-1], True]
    best = int(np.argmax(np.where(possible, right, -len(scores) - 1)))
    if best == 0:
        return float(ranked[0]) + 1e-6
    if best == len(ranked):
        return float(ranked[-1])
    return float((ranked[best - 1] + ranked[best]) / 2)
