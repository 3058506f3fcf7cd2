"""The two blocks of the FAISS index: a mutable one and a fast one.

``FlatBlock`` holds float16 vectors, supports adding and removing, and searches exhaustively.
``FastBlock`` is built once over many vectors: compact codes find candidates, and the float16
vectors rank them exactly. Removed rows are only marked.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from index.engines.faiss.install import GpuKind, load_faiss

CANDIDATES = 1000
"""Fewest candidates per query that the compact codes pass to exact ranking."""

GPU_MOST = 2048
"""Most results per query of a faiss GPU index."""

BATCH = 16
"""Number of queries from which converting to float32 and matrix products are faster."""


def fp16_store(dimension: int) -> Any:
    """Creates an empty faiss index of float16 vectors with exact inner-product search."""
    faiss = load_faiss()
    return faiss.IndexScalarQuantizer(
        dimension, faiss.ScalarQuantizer.QT_fp16, faiss.METRIC_INNER_PRODUCT
    )


def store_view(store: Any) -> np.ndarray:
    """View of the store's vectors, float16 ``(n, D)``; invalid after a resize."""
    if store.ntotal == 0:
        return np.empty((0, store.d), np.float16)
    codes = load_faiss().rev_swig_ptr(store.codes.data(), store.codes.size())
    return codes.view(np.float16).reshape(store.ntotal, store.d)


def append(store: Any, vectors: np.ndarray) -> None:
    if len(vectors):
        store.add_sa_codes(np.ascontiguousarray(vectors, np.float16).view(np.uint8))


class RowMap:
    """Maps photo numbers to rows; an array, because the gallery's numbers are dense."""

    def __init__(self) -> None:
        self._rows = np.full(1024, -1, np.int64)

    def __getitem__(self, ids: np.ndarray) -> np.ndarray:
        """Rows of the ids; -1 for unknown ids."""
        rows = np.full(len(ids), -1, np.int64)
        known = (ids >= 0) & (ids < len(self._rows))
        rows[known] = self._rows[ids[known]]
        return rows

    def __setitem__(self, ids: np.ndarray, rows: np.ndarray | int) -> None:
        if len(ids) and (top := int(ids.max())) >= len(self._rows):
            more = max(top + 1 - len(self._rows), len(self._rows))
            self._rows = np.pad(self._rows, (0, more), constant_values=-1)
        self._rows[ids] = rows

    @property
    def nbytes(self) -> int:
        return self._rows.nbytes


class FlatBlock:
    """Float16 vectors in memory, searched exhaustively."""

    def __init__(self, dimension: int) -> None:
        self.store = fp16_store(dimension)
        self._ids = np.empty(1024, np.int64)
        self._map = RowMap()

    @classmethod
    def around(cls, ids: np.ndarray, store: Any) -> FlatBlock:
        rows = cls(store.d)
        rows.store, rows._ids = store, np.array(ids, np.int64)
        rows._map[rows._ids] = np.arange(len(ids))
        return rows

    def __len__(self) -> int:
        return self.store.ntotal

    @property
    def ids(self) -> np.ndarray:
        return self._ids[: len(self)]

    @property
    def vectors(self) -> np.ndarray:
        return store_view(self.store)

    @property
    def nbytes(self) -> int:
        return self.store.codes.size() + self._ids.nbytes + self._map.nbytes

    def add(self, ids: np.ndarray, vectors: np.ndarray) -> None:
        """Appends rows; the ids must be new."""
        start, end = len(self), len(self) + len(ids)
        if end > len(self._ids):
            self._ids = np.resize(self._ids, max(end, 2 * len(self._ids), 1024))
        append(self.store, vectors)
        self._ids[start:end] = ids
        self._map[ids] = np.arange(start, end)

    def remove(self, ids: np.ndarray) -> int:
        """Removes rows and fills the gaps with rows from the end."""
        rows = self._map[ids]
        rows = np.unique(rows[rows >= 0])
        if not len(rows):
            return 0
        left = len(self) - len(rows)
        tail = np.ones(len(self) - left, bool)
        tail[rows[rows >= left] - left] = False
        movers, holes = np.flatnonzero(tail) + left, rows[rows < left]
        self._map[self._ids[rows]] = -1
        vectors = self.vectors
        vectors[holes] = vectors[movers]
        # The freed end stays allocated, so overwrite the removed faces.
        vectors[left:] = 0
        self._ids[holes] = self._ids[movers]
        self._map[self._ids[holes]] = holes
        self.store.codes.resize(left * self.store.code_size)
        self.store.ntotal = left
        return len(rows)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and ids of the ``k`` best rows, padded with -1."""
        if not len(self):
            return _nothing(len(queries), k)
        if len(queries) < BATCH:
            scores, rows = self.store.search(queries, k)
        else:
            scores, rows = _search_batch(self.vectors, queries, k)
        found = self._ids[rows]
        found[rows < 0] = -1
        return scores, found


class FastBlock:
    """Many vectors with compact codes. Removed rows are marked, never moved.

    Args:
        ids: int64 ``(n,)`` photo numbers.
        store: The float16 vectors in the same order (see :func:`fp16_store`).
        coder: A faiss index over the same rows that finds candidates; built if None.
        kind: ``rabitq`` on the CPU, or the result of :func:`plan_gpu`.
    """

    def __init__(
        self, ids: np.ndarray, store: Any, coder: Any = None, kind: GpuKind | str = "rabitq"
    ) -> None:
        faiss = load_faiss()
        self.kind = kind
        self.store = store
        self.coder = coder if coder is not None else build_coder(store, kind)
        self._ids = np.array(ids, np.int64)
        self._map = RowMap()
        self._map[self._ids] = np.arange(len(self._ids))
        self.dead = 0
        self._ranked = faiss.IndexRefine(self.coder, store)

    def __len__(self) -> int:
        return len(self._ids) - self.dead

    @property
    def live(self) -> np.ndarray:
        """Row numbers that are not removed."""
        return np.flatnonzero(self._ids >= 0)

    @property
    def ids(self) -> np.ndarray:
        return self._ids[self._ids >= 0]

    @property
    def nbytes(self) -> int:
        code = self.store.d // 8 + 12 if self.kind == "rabitq" else 0
        return self.store.codes.size() + code * len(self._ids) + self._ids.nbytes + self._map.nbytes

    def vectors_at(self, rows: np.ndarray) -> np.ndarray:
        """A copy of the vectors in these rows, float16."""
        return store_view(self.store)[rows]

    def remove(self, ids: np.ndarray) -> int:
        """Marks rows as removed and overwrites their vectors and codes; codes on GPUs stay."""
        rows = self._map[ids]
        rows = np.unique(rows[rows >= 0])
        if len(rows):
            self._map[self._ids[rows]] = -1
            self._ids[rows] = -1
            store_view(self.store)[rows] = 0
            if self.kind == "rabitq":
                _overwrite_codes(self.coder, rows)
            self.dead += len(rows)
        return len(rows)

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """Scores and ids of the ``k`` best live rows, padded with -1."""
        total = len(self._ids)
        # Removed rows score 0 and are rarely among the best: request a few more results, and
        # search again with more in the rare case that these are too few.
        wanted = min(total, k + min(self.dead, 16))
        while True:
            if self.kind != "rabitq" and wanted > GPU_MOST:
                scores, rows = self.store.search(queries, wanted)
            else:
                most = total if self.kind == "rabitq" else GPU_MOST
                factor = min(max(10.0, CANDIDATES / wanted), most / wanted)
                params = _refine_parameters(factor)
                scores, rows = self._ranked.search(queries, wanted, params=params)
            found = self._ids[rows]
            if not self.dead and wanted == k and rows[:, -1].min() >= 0:
                return scores, found
            found[rows < 0] = -1
            if wanted == total or ((found >= 0).sum(axis=1) >= min(k, len(self))).all():
                break
            wanted = min(total, 4 * wanted)
        return _squeeze(scores, found, k)


@lru_cache(maxsize=64)
def _refine_parameters(factor: float) -> Any:
    return load_faiss().IndexRefineSearchParameters(k_factor=factor)


def build_coder(store: Any, kind: GpuKind | str) -> Any:
    faiss = load_faiss()
    dimension, metric = store.d, faiss.METRIC_INNER_PRODUCT
    if kind == "rabitq":
        # The one-bit code is clearly worse without the random rotation.
        coder = faiss.index_factory(dimension, f"RR{dimension},RaBitQfs", metric)
    elif kind == "gpu-flat":
        coder = faiss.IndexFlat(dimension, metric)
    else:
        lists = max(1, int(4 * store.ntotal**0.5))
        coder = faiss.index_factory(dimension, f"IVF{lists},SQ8", metric)
        coder.nprobe = max(1, lists // 16)
    vectors = store_view(store)
    sample = vectors[:: max(1, len(vectors) // 100_000)].astype(np.float32)
    if not coder.is_trained:
        coder.train(sample)
    if kind != "rabitq":
        coder = _to_gpus(coder)
    for start in range(0, len(vectors), 65_536):
        coder.add(vectors[start : start + 65_536].astype(np.float32))
    return coder


def _overwrite_codes(coder: Any, rows: np.ndarray) -> None:
    faiss = load_faiss()
    codes = faiss.downcast_index(coder.index)
    packer = codes.get_CodePacker()
    blocks = faiss.rev_swig_ptr(codes.codes.data(), codes.codes.size())
    blocks = blocks.reshape(-1, packer.block_size)
    for block, place in zip(*divmod(rows, packer.nvec), strict=True):
        packer.pack_1(np.zeros(packer.code_size, np.uint8), int(place), blocks[block : block + 1])


def _to_gpus(coder: Any) -> Any:
    faiss = load_faiss()
    options = faiss.GpuMultipleClonerOptions()
    options.useFloat16 = True
    options.shard = True
    return faiss.index_cpu_to_all_gpus(coder, co=options)


def _search_batch(
    vectors: np.ndarray, queries: np.ndarray, k: int, block: int = 32_768
) -> tuple[np.ndarray, np.ndarray]:
    """Exact search of many queries, one block of vectors at a time."""
    faiss = load_faiss()
    best = faiss.ResultHeap(len(queries), k, keep_max=True)
    for start in range(0, len(vectors), block):
        part = vectors[start : start + block].astype(np.float32)
        scores, rows = faiss.knn(queries, part, k, metric=faiss.METRIC_INNER_PRODUCT)
        best.add_result(scores, np.where(rows >= 0, rows + start, -1))
    best.finalize()
    return best.D, best.I


def _nothing(count: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full((count, k), -np.inf, np.float32), np.full((count, k), -1, np.int64)


def _squeeze(scores: np.ndarray, ids: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Moves live results to the front, keeps their order, and cuts or pads to ``k`` columns."""
    order = np.argsort(ids < 0, axis=1, kind="stable")[:, :k]
    out_scores, out_ids = _nothing(len(ids), k)
    width = order.shape[1]
    out_ids[:, :width] = np.take_along_axis(ids, order, 1)
    out_scores[:, :width] = np.take_along_axis(scores, order, 1)
    return out_scores, out_ids
