"""One contract, every engine, held against exact search with numpy."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from index.engines.base import VectorIndex
from index.engines.faiss.index import FaissIndex
from index.engines.milvus.index import MilvusIndex
from index.types import Mark, Vectors
from tests.index.helpers import MODEL, Faces, exact_search, unit

DIMENSION = 32
MARK = Mark("gallery", 7, -12345)
TOLERANCE = 2e-3
"""float16 keeps 11 bits: a cosine moves by less than this."""

Maker = Callable[[], VectorIndex]


def _faiss_exact(_: Path) -> VectorIndex:
    return FaissIndex(DIMENSION, exact_limit=None)


def _faiss_coded(_: Path) -> VectorIndex:
    """Gathers often, so that fast block, waiting rows and removed rows are all in play."""
    return FaissIndex(DIMENSION, exact_limit=60, background=False)


def _faiss_background(_: Path) -> VectorIndex:
    return FaissIndex(DIMENSION, exact_limit=60, background=True)


def _milvus_lite(folder: Path) -> VectorIndex:
    pytest.importorskip("milvus_lite", reason="Milvus Lite is not installed")
    return MilvusIndex.connect(
        f"milvus-lite:{folder}/lite.db?index=FLAT", dimension=DIMENSION, model_id=MODEL
    )


ENGINES = {
    "faiss-exact": _faiss_exact,
    "faiss-coded": _faiss_coded,
    "faiss-background": _faiss_background,
    "milvus-lite": _milvus_lite,
}


@pytest.fixture(params=[*ENGINES, pytest.param("milvus-server", marks=pytest.mark.server)])
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[VectorIndex]:
    if request.param == "milvus-server":
        url = request.getfixturevalue("milvus_server").url("contract", index="FLAT")
        made = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)
        yield made
        made.drop()
    else:
        made = ENGINES[request.param](tmp_path)
        yield made
        made.close()


def rows(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, list[str]]:
    faces = Faces(people=count // 4 + 1, dimension=DIMENSION, seed=seed)
    vectors = np.array([faces.vector(n // 4) for n in range(count)], np.float32)
    ids = np.random.default_rng(seed).permutation(np.arange(1, 3 * count))[:count].astype(np.int64)
    return ids, vectors, [f"person-{n // 4}" for n in range(count)]


def agrees(
    index: VectorIndex, ids: np.ndarray, vectors: np.ndarray, queries: np.ndarray, k: int
) -> None:
    scores, found = index.search(queries, k)
    assert scores.shape == found.shape == (len(queries), k)
    assert (scores.dtype, found.dtype) == (np.float32, np.int64)
    n = min(k, len(ids))
    assert (found[:, n:] == -1).all()
    assert np.isneginf(scores[:, n:]).all()
    wanted, _ = exact_search(ids, vectors, queries, n)
    assert np.allclose(scores[:, :n], wanted, atol=TOLERANCE)
    assert (np.diff(scores[:, :n], axis=1) <= 1e-6).all()
    # Ids may differ only where scores are as good as equal.
    position = {int(i): row for row, i in enumerate(ids)}
    for query, line, line_scores in zip(queries, found[:, :n], scores[:, :n], strict=True):
        assert len(set(line.tolist())) == n
        own = vectors[[position[int(i)] for i in line]] @ query
        assert np.allclose(own, line_scores, atol=TOLERANCE)


def test_search_is_exact(index: VectorIndex) -> None:
    ids, vectors, people = rows(150)
    index.add(ids, vectors, people)
    assert len(index) == 150
    assert np.array_equal(index.ids(), np.sort(ids))
    queries = rows(150, seed=9)[1][:5]
    for k in (1, 10, 150, 160):
        agrees(index, ids, vectors, queries, k)
    agrees(index, ids, vectors, vectors[:40], 3)


def test_empty_index_answers_with_nothing(index: VectorIndex) -> None:
    scores, found = index.search(unit(np.ones((2, DIMENSION))), 3)
    assert (found == -1).all()
    assert np.isneginf(scores).all()
    assert (len(index), index.remove(np.array([1, 2])), index.mark) == (0, 0, None)
    assert len(index.ids()) == 0


def test_removed_and_replaced_vectors(index: VectorIndex) -> None:
    ids, vectors, people = rows(120)
    index.add(ids, vectors, people)
    gone = ids[::3]
    assert index.remove(np.append(gone, 10**6)) == len(gone)
    assert index.remove(gone) == 0
    keep = ~np.isin(ids, gone)
    agrees(index, ids[keep], vectors[keep], vectors[:6], 20)
    other = rows(120, seed=3)[1]
    index.add(ids[keep][:10], other[:10], ["somebody"] * 10)
    vectors[np.flatnonzero(keep)[:10]] = other[:10]
    assert len(index) == keep.sum()
    agrees(index, ids[keep], vectors[keep], other[:6], 20)
    index.add(gone[:4], other[20:24], ["back"] * 4)
    assert set(gone[:4]) <= set(index.ids().tolist())


def test_rebuild_replaces_everything_and_keeps_the_mark(index: VectorIndex) -> None:
    ids, vectors, people = rows(40)
    index.add(ids, vectors, people)
    new_ids, new_vectors, new_people = rows(130, seed=4)
    parts = [
        Vectors(new_ids[s], new_people[s], new_vectors[s].astype(np.float16))
        for s in (slice(0, 70), slice(70, None))
    ]
    index.rebuild(parts, MARK)
    assert index.mark == MARK
    assert np.array_equal(index.ids(), np.sort(new_ids))
    agrees(index, new_ids, new_vectors, new_vectors[:4], 7)
    later = Mark("gallery", 8, 99)
    index.advance(later)
    assert index.mark == later
    stats = index.stats()
    assert (stats.count, stats.dimension, stats.details["seq"]) == (130, DIMENSION, 8)


@pytest.mark.parametrize(
    ("ids", "shape", "message"),
    [
        ([1, 2], (3, DIMENSION), "shape"),
        ([1], (1, DIMENSION + 1), "shape"),
        ([1, 1], (2, DIMENSION), "repeat"),
        ([-1], (1, DIMENSION), "negative"),
    ],
)
def test_bad_rows_are_refused(
    index: VectorIndex, ids: list[int], shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        index.add(np.array(ids), np.zeros(shape, np.float32), ["p"] * len(ids))
    assert len(index) == 0


def test_bad_queries_are_refused(index: VectorIndex) -> None:
    with pytest.raises(ValueError, match="shape"):
        index.search(np.zeros(DIMENSION, np.float32), 1)
    with pytest.raises(ValueError, match="shape"):
        index.search(np.zeros((1, 5), np.float32), 1)
    with pytest.raises(ValueError, match="k must"):
        index.search(np.zeros((1, DIMENSION), np.float32), 0)


def test_search_while_another_thread_changes_the_index(index: VectorIndex) -> None:
    """A vector that is never touched is found at every moment."""
    ids, vectors, people = rows(100)
    index.add(ids, vectors, people)
    steady = 5
    failures: list[object] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            try:
                scores, found = index.search(vectors[steady][None], 3)
                if found[0, 0] != ids[steady] or scores[0, 0] < 0.99:
                    failures.append((scores, found))
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(3)]
    for thread in threads:
        thread.start()
    others = np.delete(np.arange(100), steady)
    for round_number in range(6):
        chosen = others[round_number * 10 : round_number * 10 + 40]
        index.remove(ids[chosen])
        index.add(ids[chosen], vectors[chosen], [people[c] for c in chosen])
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
    assert np.array_equal(index.ids(), np.sort(ids))


@pytest.mark.parametrize("engine", ["faiss-exact", "faiss-coded", "faiss-background"])
@settings(
    deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    steps=st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 199), min_size=1, max_size=60)),
        max_size=12,
    )
)
def test_any_history_equals_a_dictionary(
    engine: str, steps: list[tuple[bool, list[int]]], tmp_path: Path
) -> None:
    index = ENGINES[engine](tmp_path)
    source = rows(200)[1]
    fresh = rows(200, seed=8)[1]
    oracle: dict[int, np.ndarray] = {}
    for number, (adding, numbers) in enumerate(steps):
        ids = np.unique(numbers)
        if adding:
            vectors = (source if number % 2 else fresh)[ids]
            index.add(ids, vectors, ["p"] * len(ids))
            oracle.update(zip(ids.tolist(), vectors, strict=True))
        else:
            assert index.remove(ids) == len(set(ids.tolist()) & set(oracle))
            for i in ids.tolist():
                oracle.pop(i, None)
        assert len(index) == len(oracle)
    index.close()
    assert index.ids().tolist() == sorted(oracle)
    if oracle:
        agrees(index, np.array(list(oracle)), np.array(list(oracle.values())), source[:3], 5)
