"""How good an embedding is: retrieval, separation, error rates, each with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import faiss
import numpy as np

from model.calibration.person_counts import PersonCounts, count_people
from model.calibration.scores import Collection, Sample, histograms

KS = (1, 2, 4, 8)
FMRS = (1e-1, 1e-2, 1e-3, 1e-4)
MIN_FALSE_MATCHES = 30
"""An error rate read off fewer errors is not supported (Doddington's rule of thirty)."""

QUERY_CHUNK = 1024
KNOTS = 2000
"""Most scores at which the bootstrap counts pairs by person."""


@dataclass(frozen=True, eq=False)
class Recall:
    """Retrieval among the others: does one of the K nearest have the query's label?

    Attributes:
        ks: The ranks.
        hits: bool ``(Q, len(ks))``, per query.
        queries: Rows that have another picture of their class, int64 ``(Q,)``.
        neighbours: int64 ``(N, max(ks))``, nearest first, never the row itself.
    """

    ks: tuple[int, ...]
    hits: np.ndarray
    queries: np.ndarray
    neighbours: np.ndarray

    @property
    def values(self) -> dict[int, float]:
        """Share of queries with a hit, by K; NaN without queries."""
        means = self.hits.mean(0) if len(self.hits) else np.full(len(self.ks), np.nan)
        return dict(zip(self.ks, map(float, means), strict=True))


def recall(embeddings: np.ndarray, labels: np.ndarray, ks: tuple[int, ...] = KS) -> Recall:
    """Exact R@K by cosine, in chunks of queries, each query left out of its own gallery.

    Args:
        embeddings: float32 ``(N, D)`` unit vectors.
        labels: ``(N,)``.
        ks: Ranks.
    """
    vectors = np.ascontiguousarray(embeddings, np.float32)
    index = faiss.IndexFlatIP(vectors.shape[1])
    index.add(vectors)
    most = min(max(ks), len(vectors) - 1)
    neighbours = np.empty((len(vectors), most), np.int64)
    for start in range(0, len(vectors), QUERY_CHUNK):
        _, found = index.search(vectors[start : start + QUERY_CHUNK], most + 1)
        rows = np.arange(start, start + len(found))[:, None]
        # Of several identical vectors another may come first: drop the row itself wherever it
        # is, and the last one where it is not.
        other = found != rows
        other[other.all(1), -1] = False
        neighbours[start : start + len(found)] = found[other].reshape(len(found), most)
    counts = np.bincount(labels, minlength=int(labels.max()) + 1)
    queries = np.flatnonzero(counts[labels] > 1)
    right = labels[neighbours[queries]] == labels[queries, None]
    hits = np.stack([right[:, : min(k, most)].any(1) for k in ks], axis=1)
    return Recall(tuple(ks), hits, queries, neighbours)


def pair_scores(embeddings: np.ndarray, labels: np.ndarray) -> Sample:
    """Scores of all pairs of rows, counted without keeping them."""
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), np.int64))
    return histograms(collection)[0]


def d_prime(sample: Sample) -> float:
    """Decidability index ``(mean_gen - mean_imp) / sqrt((var_gen + var_imp) / 2)``."""
    return float(_d_prime(sample.values, sample.genuine, sample.impostor))


def equal_error_rate(sample: Sample) -> float:
    """Where false matches and false non-matches are equally frequent."""
    return float(_eer(sample.genuine, sample.impostor))


def fnmr_at(sample: Sample, fmr: float) -> float | None:
    """False non-match rate at the lowest threshold whose false-match rate is at most ``fmr``.

    Returns:
        None where fewer than thirty false matches are expected: not supported by this sample.
    """
    if sample.impostor.sum() * fmr < MIN_FALSE_MATCHES:
        return None
    return float(_fnmr(sample.genuine, sample.impostor, fmr))


def ten_fold(scores: np.ndarray, same: np.ndarray, fold: np.ndarray) -> tuple[float, float]:
    """LFW's accuracy: each fold at the threshold that is best on the others.

    Returns:
        Mean accuracy and its standard error over the folds.
    """
    accuracies = []
    for held in np.unique(fold):
        rest = fold != held
        threshold = _best_threshold(scores[rest], same[rest])
        accuracies.append(np.mean((scores[~rest] >= threshold) == same[~rest]))
    return float(np.mean(accuracies)), float(np.std(accuracies, ddof=1) / np.sqrt(len(accuracies)))


def worst_pairs(
    embeddings: np.ndarray, labels: np.ndarray, count: int = 8
) -> tuple[list[tuple[int, int, float]], list[tuple[int, int, float]]]:
    """The most alike pairs of different classes, and the least alike pairs of one class.

    Returns:
        Two lists of ``(row, row, score)``, worst first.
    """
    alike: list[tuple[int, int, float]] = []
    apart: list[tuple[int, int, float]] = []
    columns = np.arange(len(labels))
    for start in range(0, len(labels), QUERY_CHUNK):
        rows = columns[start : start + QUERY_CHUNK, None]
        scores = embeddings[start : start + QUERY_CHUNK] @ embeddings.T
        same = labels[rows] == labels
        upper = rows < columns
        for kept, mask, sign in ((alike, ~same & upper, -1), (apart, same & upper, 1)):
            ranked = np.where(mask, sign * scores, np.inf)
            best = np.argpartition(ranked, min(count, ranked.size - 1), axis=None)[:count]
            kept += [
                (int(row) + start, int(column), float(scores[row, column]))
                for row, column in zip(*np.unravel_index(best, ranked.shape), strict=True)
                if mask[row, column]
            ]
    alike.sort(key=lambda pair: -pair[2])
    apart.sort(key=lambda pair: pair[2])
    return alike[:count], apart[:count]


def evaluate(
    embeddings: np.ndarray, labels: np.ndarray, *, replicates: int = 200, seed: int = 0
) -> dict[str, Any]:
    """Everything at once, ready for JSON.

    Args:
        embeddings: float32 ``(N, D)`` unit vectors.
        labels: ``(N,)``.
        replicates: Bootstrap samples of identities; 0 for no intervals.
        seed: Of the bootstrap.

    Returns:
        ``n``, ``classes``, ``genuine_pairs``, ``impostor_pairs``; ``recall``, ``d_prime``,
        ``eer``, ``fnmr`` as ``{"value": x, "low": l, "high": h}`` (95%), None where the sample
        does not support it.
    """
    labels = np.unique(labels, return_inverse=True)[1]
    retrieved = recall(embeddings, labels)
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), np.int64))
    sample = histograms(collection)[0]
    values: dict[str, float | None] = {
        **{f"R@{k}": value for k, value in retrieved.values.items()},
        "d_prime": d_prime(sample),
        "eer": equal_error_rate(sample),
        **{f"fnmr@{fmr:g}": fnmr_at(sample, fmr) for fmr in FMRS},
    }
    spread = {}
    if replicates:
        spread = _bootstrap(retrieved, labels, collection, sample, values, replicates, seed)
    return {
        "n": len(labels),
        "classes": int(labels.max()) + 1,
        "queries": len(retrieved.queries),
        "genuine_pairs": int(sample.genuine.sum()),
        "impostor_pairs": int(sample.impostor.sum()),
        "metrics": {
            name: None if value is None else {"value": value, **spread.get(name, {})}
            for name, value in values.items()
        },
    }


def _bootstrap(
    retrieved: Recall,
    labels: np.ndarray,
    collection: Collection,
    sample: Sample,
    values: dict[str, float | None],
    replicates: int,
    seed: int,
) -> dict[str, dict[str, float]]:
    """95% percentile intervals when identities are drawn anew.

    A stranger pair belongs to two people, and its weight is the product of theirs; to first
    order that is ``w_a + w_b - 1``, which needs counts by person only, not by couple.
    """
    rng = np.random.default_rng(seed)
    people = int(labels.max()) + 1
    knots = _knots(sample)
    scores = _bin_means(sample, knots)
    (counts,) = count_people(
        collection, knots, np.zeros(len(labels), np.int64), np.zeros((1, 1), np.int64)
    )
    # The collection has its own order of people; weights are exchangeable, so it may keep it.
    weights = rng.multinomial(people, np.full(people, 1 / people), size=replicates).astype(float)
    draws: dict[str, list[float]] = {name: [] for name in values}
    hits = np.zeros((people, len(retrieved.ks)))
    np.add.at(hits, labels[retrieved.queries], retrieved.hits)
    asked = np.bincount(labels[retrieved.queries], minlength=people)
    for weight in weights:
        for column, k in enumerate(retrieved.ks):
            draws[f"R@{k}"].append(float(weight @ hits[:, column] / max(1e-9, weight @ asked)))
        genuine, impostor = _reweighted(counts, weight)
        draws["d_prime"].append(float(_d_prime(scores, genuine, impostor)))
        draws["eer"].append(float(_eer(genuine, impostor)))
        for fmr in FMRS:
            draws[f"fnmr@{fmr:g}"].append(float(_fnmr(genuine, impostor, fmr)))
    return {
        name: dict(zip(("low", "high"), map(float, np.nanpercentile(d, [2.5, 97.5])), strict=True))
        for name, d in draws.items()
        if np.isfinite(d).any()
    }


def _knots(sample: Sample) -> np.ndarray:
    """All values of a sample, or a choice of them that is fine wherever its scores lie.

    A quarter of a choice each: quantiles of the genuine and of the stranger pairs; equal factors
    of the false-match rate, for its small values; equal steps of score, for the moments.
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
    """Mean score of the pairs below the first knot, between each two, and above the last."""
    places = np.searchsorted(knots, sample.values, side="right")
    pairs = sample.genuine + sample.impostor
    totals = np.bincount(places, pairs, minlength=len(knots) + 1)
    sums = np.bincount(places, pairs * sample.values, minlength=len(knots) + 1)
    return sums / totals.clip(min=1)


def _reweighted(counts: PersonCounts, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    total = counts.impostor.sum(0) / 2
    return weight @ counts.genuine, np.maximum(0, total + (weight - 1) @ counts.impostor)


def _d_prime(values: np.ndarray, genuine: np.ndarray, impostor: np.ndarray) -> float:
    statistics = []
    for counts in (genuine, impostor):
        total = counts.sum()
        if total <= 0:
            return float("nan")
        mean = (counts @ values) / total
        statistics.append((mean, (counts @ (values - mean) ** 2) / total))
    (mean_g, var_g), (mean_i, var_i) = statistics
    spread = np.sqrt((var_g + var_i) / 2)
    return (mean_g - mean_i) / spread if spread > 0 else float("nan")


def rates(genuine: np.ndarray, impostor: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """FMR and FNMR with the threshold at each value, and above all of them."""
    fmr = np.r_[impostor[::-1].cumsum()[::-1], 0] / max(impostor.sum(), 1e-300)
    fnmr = np.r_[0, genuine.cumsum()] / max(genuine.sum(), 1e-300)
    return fmr, fnmr


def _eer(genuine: np.ndarray, impostor: np.ndarray) -> float:
    if genuine.sum() <= 0 or impostor.sum() <= 0:
        return float("nan")
    fmr, fnmr = rates(genuine, impostor)
    after = int(np.argmax(fnmr >= fmr))
    gap_after = fnmr[after] - fmr[after]
    if after == 0:
        return (fnmr[0] + fmr[0]) / 2
    gap_before = fmr[after - 1] - fnmr[after - 1]
    share = gap_before / (gap_before + gap_after) if gap_before + gap_after > 0 else 0.5
    return fnmr[after - 1] + share * (fnmr[after] - fnmr[after - 1])


def _fnmr(genuine: np.ndarray, impostor: np.ndarray, limit: float) -> float:
    fmr, fnmr = rates(genuine, impostor)
    return fnmr[int(np.argmax(fmr <= limit))]


def _best_threshold(scores: np.ndarray, same: np.ndarray) -> float:
    """The middle of the widest-scoring gap with the most right answers."""
    order = np.argsort(-scores, kind="stable")
    ranked = scores[order]
    right = np.r_[0, np.cumsum(np.where(same[order], 1, -1))]
    # A threshold between two equal scores does not exist.
    possible = np.r_[True, ranked[1:] < ranked[:-1], True]
    best = int(np.argmax(np.where(possible, right, -len(scores) - 1)))
    if best == 0:
        return float(ranked[0]) + 1e-6
    if best == len(ranked):
        return float(ranked[-1])
    return float((ranked[best - 1] + ranked[best]) / 2)
