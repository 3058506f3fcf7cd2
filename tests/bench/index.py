"""Search speed and quality of the index against its alternatives, in one run.

``python -m tests.bench index --sizes 10000,100000,1000000 --figure index.png``. With
``--embeddings file.npz`` (``embeddings`` ``(n, D)``, ``labels`` ``(n,)``) real vectors take the
place of made-up ones.
"""

from __future__ import annotations

import argparse
import gc
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from index.engines.faiss import cache as faiss_cache
from index.engines.faiss.blocks import CANDIDATES
from index.engines.faiss.index import FaissIndex
from index.engines.faiss.install import load_faiss
from index.engines.milvus.index import MilvusIndex
from index.types import Mark, Vectors
from tests.bench._index_data import PHOTOS, Crowd
from tests.bench.databases import enrollment, timed

K = 10
Search = Callable[[np.ndarray, int], tuple[np.ndarray, np.ndarray]]
Clock = Callable[[], float]


@dataclass
class Line:
    """One kind of search at one size."""

    kind: str
    size: int
    ms: float
    right: float
    same_first: float
    bytes_each: float
    build: float


def main(argv: Sequence[str]) -> int:
    """Prints the tables and draws the figure."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench index", description=__doc__)
    parser.add_argument("--sizes", default="10000,100000")
    parser.add_argument("--dimension", type=int, default=512)
    parser.add_argument("--embeddings", type=Path)
    parser.add_argument("--queries", type=int, default=100)
    parser.add_argument("--figure", type=Path)
    parser.add_argument(
        "--cpu-clock",
        action="store_true",
        help="count the processor time of the searching thread, for a machine that is busy",
    )
    parser.add_argument("--gallery", type=int, default=2000, help="photos in the gallery test")
    arguments = parser.parse_args(argv)
    crowd = Crowd(arguments.dimension, arguments.embeddings)
    clock = time.thread_time if arguments.cpu_clock else time.perf_counter
    lines: list[Line] = []
    for size in (int(text) for text in arguments.sizes.split(",")):
        lines += _at_size(crowd, size, arguments.queries, clock)
    enrollment(crowd, arguments.gallery)
    if arguments.figure:
        _draw(lines, arguments.figure)
        print(f"figure: {arguments.figure}")
    return 0


def _at_size(crowd: Crowd, size: int, asked: int, clock: Clock) -> list[Line]:
    faiss = load_faiss()
    faiss.omp_set_num_threads(1)
    photos, queries = crowd.rows(size, min(asked, size // PHOTOS))
    lines: list[Line] = []
    print(f"\n{size:,} photos, {crowd.dimension} numbers, k = {K}, one query at a time")
    print(
        f"{'kind':26s} {'ms':>8s} {'x flat':>7s} {'right':>7s} {'R@1':>6s} {'B/photo':>8s} build s"
    )

    truth = np.concatenate(
        [_exact(photos, queries[start : start + 50]) for start in range(0, len(queries), 50)]
    )

    def measure(
        kind: str,
        search: Search,
        each: float,
        build: float,
        clock: Clock = clock,
        held: int = size,
    ) -> None:
        ms = _latency(search, queries, clock)
        found = np.concatenate([search(query[None], K)[1] for query in queries])
        right = float((found[:, 0] // PHOTOS == np.arange(len(found))).mean())
        scores = (photos[found[:, 0]].astype(np.float32) * queries).sum(axis=1)
        # Two photos may be equally near: what counts is the score.
        same = float((scores >= truth - 1e-4).mean())
        line = Line(kind, held, ms, right, same, each, build)
        lines.append(line)
        ratio = ms / lines[0].ms
        print(
            f"{kind:26s} {ms:8.3f} {ratio:7.3f} {right:7.3f} {same:6.3f} {each:8.0f} {build:7.2f}"
        )

    build, flat = timed(lambda: _filled(faiss.IndexFlatIP(crowd.dimension), photos))
    measure("faiss Flat (baseline)", flat.search, 4 * crowd.dimension, build)
    matrix = faiss.rev_swig_ptr(flat.get_xb(), size * crowd.dimension).reshape(size, -1)
    measure("numpy", partial(_numpy, matrix), 4 * crowd.dimension, 0)
    if size <= 100_000:
        measure("scikit-learn brute", _sklearn(matrix), 4 * crowd.dimension, 0)
    del flat, matrix
    gc.collect()
    for name, text, limit in (
        ("faiss HNSW32", "HNSW32", 20_000),
        ("faiss IVF, nprobe 16", f"IVF{int(4 * size**0.5)},Flat", 200_000),
    ):
        if size <= limit:
            build, other = timed(lambda text=text: _factory(crowd.dimension, text, photos))
            measure(name, other.search, 4 * crowd.dimension, build)
            del other
    ids = np.arange(size)
    mark = Mark("bench", 1, 1)
    chunks = [Vectors(ids, [""] * size, photos)]
    for limit, kind in ((None, "exact"), (0, "coded")):
        ours = FaissIndex(crowd.dimension, exact_limit=limit)
        build, _ = timed(lambda ours=ours: ours.rebuild(chunks, mark))
        each = ours.stats().memory_bytes / size
        raw = _raw(ours)
        measure(f"ours, {kind}", ours.search, each, build)
        ratio = _paired(ours.search, raw, queries, clock)
        print(f"    protocol / raw faiss of the same kind: {ratio:.3f}")
        _cache(ours, crowd.dimension)
        del ours, raw
        gc.collect()
    if size <= 10_000:
        _milvus_lite(crowd.dimension, photos[:2000], measure)
    return lines


def _exact(photos: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Score of the best photo of each query by numpy, a block at a time."""
    best = np.full(len(queries), -np.inf)
    for start in range(0, len(photos), 65_536):
        scores = queries @ photos[start : start + 65_536].astype(np.float32).T
        best = np.maximum(best, scores.max(axis=1))
    return best


def _filled(index: object, photos: np.ndarray) -> object:
    for start in range(0, len(photos), 65_536):
        index.add(photos[start : start + 65_536].astype(np.float32))
    return index


def _factory(dimension: int, text: str, photos: np.ndarray) -> object:
    faiss = load_faiss()
    index = faiss.index_factory(dimension, text, faiss.METRIC_INNER_PRODUCT)
    index.train(photos[:100_000].astype(np.float32))
    if text.startswith("IVF"):
        index.nprobe = 16
    return _filled(index, photos)


def _numpy(matrix: np.ndarray, query: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    scores = matrix @ query[0]
    top = np.argpartition(-scores, k)[:k]
    top = top[np.argsort(-scores[top])]
    return scores[None, top], top[None]


def _sklearn(matrix: np.ndarray) -> Search:
    from sklearn.neighbors import NearestNeighbors

    model = NearestNeighbors(n_neighbors=K, algorithm="brute", metric="euclidean").fit(matrix)
    return lambda query, k: model.kneighbors(query, k)


def _raw(ours: FaissIndex) -> Search:
    """The faiss call behind an index of ours, without the index around it."""
    faiss = load_faiss()
    content = ours.content()
    if content.fast is None:
        store = ours._flat.store
        return lambda query, k: store.search(query, k)
    ranked = content.fast._ranked
    params = faiss.IndexRefineSearchParameters(k_factor=CANDIDATES / K)
    return lambda query, k: ranked.search(query, k, params=params)


def _latency(search: Search, queries: np.ndarray, clock: Clock, budget: float = 4.0) -> float:
    """Median milliseconds of a single query."""
    search(queries[:1], K)
    times, end = [], time.perf_counter() + budget
    for query in np.resize(queries, (200, queries.shape[1])):
        start = clock()
        search(query[None], K)
        times.append(clock() - start)
        if time.perf_counter() > end and len(times) >= 5:
            break
    return 1000 * float(np.median(times))


def _paired(
    ours: Search, raw: Search, queries: np.ndarray, clock: Clock, budget: float = 8.0
) -> float:
    """Median of the ratio of two searches timed in turn, so that noise hits both."""
    ratios, end = [], time.perf_counter() + budget
    for number, query in enumerate(np.resize(queries, (400, queries.shape[1]))):
        pair = {}
        for search in (ours, raw) if number % 2 else (raw, ours):
            start = clock()
            search(query[None], K)
            pair[search] = clock() - start
        ratios.append(pair[ours] / pair[raw])
        if time.perf_counter() > end and number >= 8:
            break
    return float(np.median(ratios))


def _cache(ours: FaissIndex, dimension: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, key = Path(folder) / "index.cache", bytes(32)
        saved, _ = timed(lambda: faiss_cache.save(ours.content(), path, key))
        fresh = FaissIndex(dimension)
        cpu = time.process_time()
        loaded, _ = timed(lambda: faiss_cache.load(fresh, path, key))
        cpu = time.process_time() - cpu
        print(
            f"    cache: {path.stat().st_size / 1e6:.0f} MB, saved in {saved:.2f} s, "
            f"ready in {loaded:.2f} s ({cpu:.2f} s of processor time)"
        )


def _milvus_lite(dimension: int, photos: np.ndarray, measure: Callable[..., None]) -> None:
    try:
        import milvus_lite  # noqa: F401
    except ImportError:
        print("Milvus Lite is not installed")
        return
    with tempfile.TemporaryDirectory() as folder:
        url = f"milvus-lite:{folder}/lite.db?index=FLAT"
        index = MilvusIndex.connect(url, dimension=dimension, model_id="bench")
        people = [str(row // PHOTOS) for row in range(len(photos))]
        build, _ = timed(lambda: index.add(np.arange(len(photos)), photos, people))
        # The work is done in another process, whose time this thread's clock does not count.
        name = f"Milvus Lite, first {len(photos)}"
        measure(name, index.search, 4 * dimension, build, time.perf_counter, len(photos))
        index.close()


def _draw(lines: list[Line], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(8.5, 4.5))
    for kind in dict.fromkeys(line.kind for line in lines):
        own = [line for line in lines if line.kind == kind]
        style = {"linewidth": 2.5} if kind.startswith("ours") else {"linewidth": 1, "alpha": 0.7}
        axes.loglog(
            [line.size for line in own], [line.ms for line in own], "o-", label=kind, **style
        )
    axes.set_xlabel("photos in the gallery")
    axes.set_ylabel("milliseconds a query, one thread")
    axes.grid(which="both", alpha=0.2)
    axes.legend(fontsize=8, loc="center left", bbox_to_anchor=(1.01, 0.5), frameon=False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
