"""Metrics against brute force."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.calibration.pairs.scores import Sample
from model.calibration.summary import equal_errors
from training.measure import metrics
from training.measure.retrieval import KS, recall


def cloud(rows: int = 90, classes: int = 9, noise: float = 0.9, seed: int = 0) -> tuple:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=rows)
    vectors = rng.normal(size=(classes, 8))[labels] + noise * rng.normal(size=(rows, 8))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), labels


def all_pairs(vectors: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.triu_indices(len(labels), 1)
    scores = (vectors @ vectors.T)[first, second]
    same = labels[first] == labels[second]
    return scores[same], scores[~same]


@given(st.integers(0, 50), st.integers(12, 60), st.integers(2, 12))
@settings(deadline=None, max_examples=25)
def test_recall_equals_brute_force(seed: int, rows: int, classes: int) -> None:
    vectors, labels = cloud(rows, classes, seed=seed)
    found = recall(vectors, labels)
    similarity = vectors @ vectors.T
    np.fill_diagonal(similarity, -9)
    order = np.argsort(-similarity, axis=1, kind="stable")
    for column, k in enumerate(KS):
        hits = [
            bool((labels[order[row, :k]] == labels[row]).any())
            for row in range(rows)
            if (labels == labels[row]).sum() > 1
        ]
        assert found.hits[:, column].tolist() == hits


def test_recall_never_finds_the_query_itself_among_duplicates() -> None:
    vectors = np.ones((6, 4), np.float32) / 2
    labels = np.array([0, 0, 1, 1, 2, 3])
    found = recall(vectors, labels, ks=(1, 5))
    assert (found.neighbours != np.arange(6)[:, None]).all()
    assert found.queries.tolist() == [0, 1, 2, 3]
    assert found.values[5] == 1.0


def test_pair_metrics_equal_brute_force() -> None:
    vectors, labels = cloud()
    genuine, impostor = all_pairs(vectors, labels)
    sample = metrics.pair_scores(vectors, labels)
    spread = np.sqrt((genuine.var() + impostor.var()) / 2)
    expected = (genuine.mean() - impostor.mean()) / spread
    assert metrics.d_prime(sample) == pytest.approx(expected, rel=1e-4)
    thresholds = np.sort(np.concatenate([genuine, impostor]))
    fmr = np.array([(impostor >= t).mean() for t in thresholds])
    fnmr = np.array([(genuine < t).mean() for t in thresholds])
    nearest = np.argmin(abs(fmr - fnmr))
    assert metrics.equal_error_rate(sample) == pytest.approx(
        (fmr[nearest] + fnmr[nearest]) / 2, abs=0.003
    )
    assert metrics.fnmr_at(sample, 0.1) == pytest.approx(fnmr[fmr <= 0.1][0], abs=1e-9)


def test_small_samples_do_not_support_small_rates() -> None:
    vectors, labels = cloud()
    sample = metrics.pair_scores(vectors, labels)
    assert sample.impostor.sum() < 30_000
    assert metrics.fnmr_at(sample, 1e-1) is not None
    assert metrics.fnmr_at(sample, 1e-3) is None
    report = metrics.evaluate(vectors, labels, replicates=0)
    assert report["metrics"]["fnmr@0.001"] is None


@given(
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
    st.lists(st.floats(-1, 1), min_size=1, max_size=20),
)
@settings(deadline=None, max_examples=80)
def test_equal_error_rate_is_a_rate(genuine: list[float], impostor: list[float]) -> None:
    sample = Sample.of(np.array(genuine), np.array(impostor))
    assert 0 <= metrics.equal_error_rate(sample) <= 1


def test_separated_scores_have_no_error() -> None:
    sample = Sample.of(np.array([0.8, 0.9]), np.array([0.1, 0.2]))
    assert metrics.equal_error_rate(sample) == 0
    mirrored = Sample.of(np.array([0.1, 0.2]), np.array([0.8, 0.9]))
    assert metrics.equal_error_rate(mirrored) == 1


def test_intervals_cover_the_value_and_shrink_with_people() -> None:
    widths = []
    for rows, classes in ((120, 12), (1200, 120)):
        vectors, labels = cloud(rows, classes)
        report = metrics.evaluate(vectors, labels, replicates=100)["metrics"]
        for name in ("R@1", "d_prime", "eer"):
            entry = report[name]
            assert entry["low"] <= entry["value"] + 1e-3
            assert entry["value"] <= entry["high"] + 1e-3
        widths.append(report["d_prime"]["high"] - report["d_prime"]["low"])
    assert widths[1] < widths[0]


def test_bootstrap_of_d_prime_has_the_spread_of_new_samples() -> None:
    """The interval's width against how d' really varies when other people are drawn."""
    rng = np.random.default_rng(0)

    def draw() -> tuple[np.ndarray, np.ndarray]:
        labels = np.repeat(np.arange(40), 4)
        noise = rng.uniform(0.3, 1.6, size=40)[labels, None]
        vectors = rng.normal(size=(40, 8))[labels] + noise * rng.normal(size=(160, 8))
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors.astype(np.float32), labels

    truth = np.std([metrics.d_prime(metrics.pair_scores(*draw())) for _ in range(30)])
    entries = [metrics.evaluate(*draw(), replicates=100)["metrics"]["d_prime"] for _ in range(3)]
    width = np.mean([(entry["high"] - entry["low"]) / 3.92 for entry in entries])
    assert 0.6 < width / truth < 1.6


FIGURES = ("d_prime", "eer", "fnmr@0.1", "fnmr@0.01")


def plainly_drawn(
    vectors: np.ndarray, labels: np.ndarray, weights: np.ndarray
) -> dict[str, np.ndarray]:
    """Figures with each pair weighed by both its people, for each row of weights of people."""
    first, second = np.triu_indices(len(labels), 1)
    scores = (vectors @ vectors.T)[first, second].astype(float)
    order = np.argsort(scores)
    first, second, scores = labels[first][order], labels[second][order], scores[order]
    draws = []
    for weight in weights:
        genuine = np.where(first == second, weight[first], 0)
        impostor = np.where(first == second, 0, weight[first] * weight[second])
        sample = Sample(scores, genuine, impostor)
        misses = [metrics.fnmr_at(sample, fmr) for fmr in (0.1, 0.01)]
        draws.append([metrics.d_prime(sample), metrics.equal_error_rate(sample), *misses])
    return dict(zip(FIGURES, np.array(draws, float).T, strict=True))


def photos(noise: float) -> tuple[np.ndarray, np.ndarray]:
    """Five photos each of sixty people, all cosines near 0.995: a collapsed network."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(60), 5)
    people, own = rng.normal(size=(60, 16)), rng.normal(size=(300, 16))
    vectors = np.eye(16)[0] + 0.015 * people[labels] + noise * own
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


def people_drawn(replicates: int = 400) -> np.ndarray:
    return np.random.default_rng(1).multinomial(60, np.full(60, 1 / 60), size=replicates)


def assert_interval(entry: dict[str, float], draws: np.ndarray) -> None:
    low, high = np.percentile(draws, [2.5, 97.5])
    assert entry["low"] == pytest.approx(low, abs=0.15 * (high - low))
    assert entry["high"] == pytest.approx(high, abs=0.15 * (high - low))


def test_intervals_of_a_collapsed_network_are_those_of_a_plain_bootstrap() -> None:
    """What is measured differs in the third digit of the cosines and below."""
    vectors, labels = photos(0.01)
    assert 0.99 < metrics.pair_scores(vectors, labels).values.mean() < 0.998
    found = metrics.evaluate(vectors, labels, replicates=400)["metrics"]
    for entry in filter(None, found.values()):
        assert entry["low"] <= entry["value"] <= entry["high"]
    for name, draws in plainly_drawn(vectors, labels, people_drawn()).items():
        assert_interval(found[name], draws)


def test_two_networks_are_held_against_each_other_on_the_same_people() -> None:
    vectors, labels = photos(0.01)
    other = photos(0.0105)[0]
    found = metrics.evaluate(vectors, labels, against=other, replicates=400)
    alone = metrics.evaluate(other, labels, replicates=400)["metrics"]
    weights = people_drawn()
    ours, theirs = (plainly_drawn(each, labels, weights) for each in (vectors, other))
    for name in FIGURES:
        entry = found["difference"][name]
        assert entry["value"] == found["metrics"][name]["value"] - alone[name]["value"]
        assert_interval(entry, ours[name] - theirs[name])
    difference = found["difference"]["d_prime"]
    assert difference["low"] > 0, "clearly better, though the two intervals overlap"
    assert found["metrics"]["d_prime"]["low"] < alone["d_prime"]["high"]


def test_a_network_does_not_differ_from_itself() -> None:
    vectors, labels = cloud()
    report = metrics.evaluate(vectors, labels, against=vectors, replicates=20)
    assert report["difference"]["fnmr@0.001"] is None
    for entry in filter(None, report["difference"].values()):
        assert entry == {"value": 0, "low": 0, "high": 0}


def eer_of(rows: list[int], labels: np.ndarray) -> dict[str, float]:
    vectors = np.eye(4, dtype=np.float32)[rows]
    return metrics.evaluate(vectors, labels, replicates=100)["metrics"]["eer"]


def test_intervals_of_a_wholly_collapsed_network() -> None:
    equal = eer_of([0] * 12, np.repeat(np.arange(4), 3))
    assert equal["value"] == equal["low"] == equal["high"] == 0.5
    one_pair = eer_of([0, 0], np.array([0, 0]))
    assert np.isnan(one_pair["value"])
    assert "low" not in one_pair
    ties = eer_of([0] * 20 + [1, 2], np.arange(22) % 6)
    assert 0.1 < ties["low"] < ties["value"] < ties["high"] < 0.6


def test_without_queries_retrieval_has_neither_value_nor_interval() -> None:
    vectors, _ = cloud(12)
    entry = metrics.evaluate(vectors, np.arange(12), replicates=20)["metrics"]["R@1"]
    assert np.isnan(entry["value"])
    assert "low" not in entry


def test_draws_without_queries_say_nothing_of_retrieval() -> None:
    """One person of eight can ask, and always hits: often drawn away, but never missed."""
    vectors = np.eye(8, dtype=np.float32)[[0, *range(8)]]
    labels = np.array([0, *range(8)])
    entry = metrics.evaluate(vectors, labels, replicates=100)["metrics"]["R@1"]
    assert entry["value"] == entry["low"] == entry["high"] == 1


@given(st.integers(0, 10_000), st.integers(2, 7))
@settings(deadline=None, max_examples=80)
def test_equal_errors_lie_where_the_rates_cross(seed: int, bins: int) -> None:
    """Against a walk along the line of thresholds, of few bins with many ties."""
    rng = np.random.default_rng(seed)
    genuine, impostor = rng.integers(0, 4, (2, bins))
    genuine[0] += 1
    impostor[-1] += 1
    fnmr = np.r_[0, genuine.cumsum()] / genuine.sum()
    fmr = np.r_[impostor[::-1].cumsum()[::-1], 0] / impostor.sum()
    steps = np.linspace(0, bins, 20_001)
    gaps = abs(np.interp(steps, range(bins + 1), fmr) - np.interp(steps, range(bins + 1), fnmr))
    crossing = np.interp(steps[gaps.argmin()], range(bins + 1), fmr)
    found = equal_errors(genuine[None].astype(float), impostor[None].astype(float))[0]
    assert found == pytest.approx(crossing, abs=2e-3)


def test_ten_folds_by_hand() -> None:
    rng = np.random.default_rng(0)
    fold = np.repeat(np.arange(10), 60)
    same = rng.random(600) < 0.5
    scores = np.where(same, 0.6, 0.3) + 0.1 * rng.normal(size=600)
    accuracy, error = metrics.ten_fold(scores, same, fold)
    by_hand = []
    for held in range(10):
        rest = fold != held
        best = max(scores[rest], key=lambda t: ((scores[rest] >= t) == same[rest]).mean())
        by_hand.append(((scores[~rest] >= best) == same[~rest]).mean())
    assert accuracy == pytest.approx(np.mean(by_hand), abs=0.004)
    assert error == pytest.approx(np.std(by_hand, ddof=1) / np.sqrt(10), abs=0.003)
    assert metrics.ten_fold(same.astype(float), same, fold) == (1.0, 0.0)
