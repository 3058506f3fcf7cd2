"""Streamed counts against the plainest possible counting."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.calibration.pairs import scores as scores_module
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Sample, from_grid, histograms, tiles, to_grid
from model.calibration.pairs.worst_pairs import worst_pairs

Photos = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@pytest.fixture(params=["all meet strangers", "some do"])
def photos(request: pytest.FixtureRequest) -> Photos:
    """Unit vectors, labels with gaps and in no order, the half of each photo's person, and
    whether it meets strangers; all photos of one person and one of another do not."""
    rng = np.random.default_rng(5)
    labels = rng.permutation(np.repeat([3, 7, 8, 20, 21, 40, 41], [1, 5, 2, 9, 1, 3, 4]))
    vectors = rng.normal(size=(len(labels), 6)) + 2 * rng.normal(size=(50, 6))[labels]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    meeting = np.ones(len(labels), bool)
    if request.param == "some do":
        meeting[labels == 8] = False
        meeting[np.flatnonzero(labels == 20)[0]] = False
    return vectors, labels, (labels % 2 == 0).astype(int), meeting


def compared(first: int, second: int, labels: np.ndarray, meeting: np.ndarray) -> bool:
    return labels[first] == labels[second] or bool(meeting[first] and meeting[second])


@pytest.fixture(autouse=True)
def small_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores_module, "TILE_PHOTOS", 6)


def test_tiles_hold_every_pair_once_and_no_couple_twice(photos: Photos) -> None:
    _, labels, _, meeting = photos
    collection = Collection.of(*photos)
    seen: set[tuple[int, int]] = set()
    couples: set[tuple[int, int]] = set()
    for tile in tiles(collection):
        pairs = set(zip(tile.rows.tolist(), tile.cols.tolist(), strict=True))
        assert not pairs & seen
        seen |= pairs
        here = {tuple(sorted((collection.person[a], collection.person[b]))) for a, b in pairs}
        assert not here & couples
        couples |= here
    wanted = [
        {a, b} for a in range(len(labels)) for b in range(a) if compared(a, b, labels, meeting)
    ]
    order = collection.order.tolist()
    assert sorted(sorted((order[a], order[b])) for a, b in seen) == sorted(map(sorted, wanted))
    assert collection.pairs == len(wanted)


def test_progress_ends_with_the_last_pair(photos: Photos) -> None:
    reported: list[tuple[int, int]] = []
    histograms(Collection.of(*photos), lambda done, total: reported.append((done, total)))
    assert reported[-1][0] == reported[-1][1] == Collection.of(*photos).pairs


@pytest.mark.parametrize("count", [7, 13])
def test_a_photo_left_alone_in_a_tile_makes_no_pair_with_itself(count: int) -> None:
    vectors = np.eye(count, dtype=np.float32)
    collection = Collection.of(vectors, np.arange(count), np.zeros(count, int))
    assert np.diff(collection.tile_bounds())[-1] == 1
    first, *others = histograms(collection)
    assert first.impostor.sum() == collection.pairs
    assert not any(part.impostor.sum() for part in others)


def test_histograms_match_counting_one_by_one(photos: Photos) -> None:
    vectors, labels, half, meeting = photos
    parts = histograms(Collection.of(*photos))
    matrix = vectors @ vectors.T
    for part, wanted in zip(parts, [(0, 0), (1, 1), (0, 1)], strict=True):
        genuine, impostor = [], []
        for a in range(len(labels)):
            for b in range(a):
                in_part = tuple(sorted((half[a], half[b]))) == wanted
                if in_part and compared(a, b, labels, meeting):
                    (genuine if labels[a] == labels[b] else impostor).append(matrix[a, b])
        assert part.genuine.sum() == len(genuine)
        assert part.impostor.sum() == len(impostor)
        for counts, found in ((part.genuine, genuine), (part.impostor, impostor)):
            np.testing.assert_allclose(
                np.repeat(part.values, counts), np.sort(found), atol=2 / scores_module.GRID
            )


def test_person_counts_match_counting_one_by_one(photos: Photos) -> None:
    labels = photos[1]
    collection = Collection.of(*photos)
    knots = from_grid(to_grid(np.array([-0.5, 0.0, 0.25, 0.6])))
    classes = np.arange(len(labels)) % 3
    table = np.array([[0, 0, -1], [0, 1, 1], [-1, 1, 1]])
    results = count_people(collection, knots, classes, table)
    places = to_grid(collection.vectors @ collection.vectors.T)
    person = collection.person
    for population, found in enumerate(results):
        genuine = np.zeros((collection.people, 5), int)
        impostor = np.zeros((collection.people, 5), int)
        couples: dict[tuple[int, int], list[int]] = defaultdict(list)
        for a in range(len(labels)):
            for b in range(a):
                if table[classes[a], classes[b]] != population:
                    continue
                if not compared(a, b, person, collection.meeting):
                    continue
                bin_ = int((to_grid(knots) <= places[b, a]).sum())
                if person[a] == person[b]:
                    genuine[person[a], bin_] += 1
                else:
                    impostor[person[a], bin_] += 1
                    impostor[person[b], bin_] += 1
                    couples[person[b], person[a]].append(bin_)
        np.testing.assert_array_equal(found.genuine, genuine)
        np.testing.assert_array_equal(found.impostor, impostor)
        for knot in range(4):
            above = {key: sum(b > knot for b in bins) for key, bins in couples.items()}
            assert found.couple_squares[knot] == sum(k * k for k in above.values())
            products = sum(k * len(couples[key]) for key, k in above.items())
            assert found.couple_products[knot] == products
        assert found.couple_sizes == sum(len(bins) ** 2 for bins in couples.values())
        assert found.couples == len(couples)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=20), st.floats(-1, 1, width=32))
@settings(deadline=None, max_examples=200)
def test_grid_keeps_every_comparison_with_a_grid_threshold(scores, threshold) -> None:
    place = to_grid(np.array([threshold]))
    on_grid = from_grid(place)[0]
    values = np.array(scores, np.float32)
    np.testing.assert_array_equal(to_grid(values) >= place, values.astype(float) >= on_grid)


def test_samples_add_up() -> None:
    rng = np.random.default_rng(0)
    one, two = (np.round(rng.normal(size=(2, 40)), 1) for _ in range(2))
    whole = Sample.of(one[0], one[1]) + Sample.of(two[0], two[1])
    direct = Sample.of(np.r_[one[0], two[0]], np.r_[one[1], two[1]])
    for name in ("values", "genuine", "impostor"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(direct, name))
    threshold = direct.values[10]
    impostor, genuine = np.r_[one[1], two[1]], np.r_[one[0], two[0]]
    assert direct.false_matches[10] == (impostor >= threshold).sum()
    assert direct.false_non_matches[10] == (genuine < threshold).sum()


def test_worst_pairs_are_the_extremes_and_name_the_callers_rows(photos: Photos) -> None:
    vectors, labels, *_ = photos
    alike, unlike = worst_pairs(vectors, labels, 3)
    matrix = vectors @ vectors.T
    apart = labels[:, None] != labels[None, :]
    assert alike[0].score == pytest.approx(matrix[apart].max(), abs=1e-5)
    assert unlike[0].score == pytest.approx(matrix[~apart].min(), abs=1e-5)
    for pair in [*alike, *unlike]:
        assert matrix[pair.first, pair.second] == pytest.approx(pair.score, abs=1e-5)
    assert all(labels[p.first] != labels[p.second] for p in alike)
    assert all(labels[p.first] == labels[p.second] for p in unlike)
    assert len({frozenset((labels[p.first], labels[p.second])) for p in alike}) == 3


@pytest.mark.parametrize("seed", range(3))
def test_worst_pairs_are_the_worst_of_each_couple_however_many_photos_they_have(seed: int) -> None:
    """Two classes that are one, and photos in a wrong class, have hundreds of bad pairs each."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(12), 30)
    centres = rng.normal(size=(12, 8))
    centres[1] = centres[0]
    vectors = centres[labels] + 0.5 * rng.normal(size=(360, 8))
    vectors[[30, 31, 100]] = -vectors[[30, 31, 100]]
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    matrix = vectors @ vectors.T
    expected: dict[bool, list[float]] = {True: [], False: []}
    for first in range(12):
        for second in range(first, 12):
            scores = matrix[np.ix_(labels == first, labels == second)]
            if first == second:
                expected[True].append(scores[np.triu_indices(30, 1)].min())
            else:
                expected[False].append(scores.max())
    alike, unlike = worst_pairs(vectors, labels, 8)
    for found, wanted in (
        (alike, sorted(expected[False], reverse=True)),
        (unlike, sorted(expected[True])),
    ):
        np.testing.assert_allclose([pair.score for pair in found], wanted[:8], atol=1e-5)
