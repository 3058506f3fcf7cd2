"""The FAISS index: exact for small galleries, compact codes with re-ranking for large ones."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from index.engines.base import IndexStats, check_queries, check_rows
from index.engines.faiss.blocks import FastBlock, FlatBlock, append, fp16_store
from index.engines.faiss.install import free_gpu_memory, gpu_count, load_faiss, plan_gpu
from index.locks import ReadWriteLock
from index.types import Mark, Vectors

log = logging.getLogger(__name__)

EXACT_LIMIT = 100_000
"""Most vectors for exhaustive search. At this size the search by codes is faster for vectors of
128 to 512 dimensions; see ``tests.bench index``."""


@dataclass(frozen=True, eq=False)
class Content:
    """The two blocks of an index and the last gallery change they include."""

    flat: FlatBlock
    fast: FastBlock | None
    mark: Mark | None


class FaissIndex:
    """An index in memory: a mutable block and an optional fast one.

    New vectors go to a flat float16 block that is searched exactly. Above ``exact_limit`` a
    background thread moves all vectors into a fast block. Until the next rebuild of the fast
    block, new vectors stay in the flat block and removed rows are only marked.

    Args:
        exact_limit: Most vectors without a fast block; None to never build one.
        gpu: Use GPUs for the fast block if faiss supports them.
        gpu_budget: Largest fraction of the GPUs' free memory to use, in ``(0, 1]``.
        background: Gather in a thread; False gathers inside ``add``, for tests and tools.
    """

    shared = False

    def __init__(
        self,
        dimension: int,
        *,
        exact_limit: int | None = EXACT_LIMIT,
        gpu: bool = True,
        gpu_budget: float = 0.8,
        background: bool = True,
    ) -> None:
        # Below this number of queries faiss uses its own kernels, which are several times faster
        # than a BLAS matrix product.
        load_faiss().cvar.distance_compute_blas_threshold = 8 * dimension
        self._dimension = dimension
        # The compact code needs whole bytes.
        self._exact_limit = exact_limit if dimension % 8 == 0 else None
        self._gpu, self._gpu_budget, self._background = gpu, gpu_budget, background
        self._lock = ReadWriteLock()
        self._flat = FlatBlock(dimension)
        self._fast: FastBlock | None = None
        self._mark: Mark | None = None
        self._gathering: threading.Thread | None = None
        self._changed: dict[int, bool] | None = None
        """While gathering: ids changed since its snapshot; True if they are in the index."""

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def mark(self) -> Mark | None:
        return self._mark

    def advance(self, mark: Mark) -> None:
        self._mark = mark

    def __len__(self) -> int:
        with self._lock.reading():
            return len(self._flat) + (len(self._fast) if self._fast else 0)

    def ids(self) -> np.ndarray:
        with self._lock.reading():
            parts = [self._flat.ids] + ([self._fast.ids] if self._fast else [])
            return np.sort(np.concatenate(parts))

    def add(self, ids: np.ndarray, vectors: np.ndarray, people: Sequence[str] = ()) -> None:
        ids = check_rows(self._dimension, ids, vectors)
        with self._lock.writing():
            self._discard(ids)
            self._flat.add(ids, vectors)
            self._note(ids, True)
        self._gather_if_due()

    def remove(self, ids: np.ndarray) -> int:
        ids = np.asarray(ids, np.int64).reshape(-1)
        with self._lock.writing():
            removed = self._discard(ids)
            self._note(ids, False)
        self._gather_if_due()
        return removed

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        queries = check_queries(self._dimension, queries, k)
        # OpenMP's setting is per calling thread. More threads do not speed up a single query, and
        # they slow down concurrent requests.
        load_faiss().omp_set_num_threads(1 if len(queries) == 1 else os.cpu_count() or 1)
        with self._lock.reading():
            blocks = [
                block for block in (self._fast, self._flat) if block is not None and len(block)
            ]
            parts = [block.search(queries, k) for block in blocks or [self._flat]]
        if len(parts) == 1:
            return _clean(*parts[0])
        scores, found = (np.concatenate(part, axis=1) for part in zip(*parts, strict=True))
        scores, found = _clean(scores, found)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return np.take_along_axis(scores, best, 1), np.take_along_axis(found, best, 1)

    def rebuild(self, chunks: Iterable[Vectors], mark: Mark) -> None:
        flat = FlatBlock(self._dimension)
        for chunk in chunks:
            flat.add(check_rows(self._dimension, chunk.ids, chunk.vectors), chunk.vectors)
        fast = None
        if self._exact_limit is not None and len(flat) > self._exact_limit:
            fast = self.build(flat.ids, flat.store)
            flat = FlatBlock(self._dimension)
        self._wait()
        with self._lock.writing():
            self._flat, self._fast, self._mark = flat, fast, mark

    def gather(self) -> None:
        """Builds the fast block from all vectors; searches continue meanwhile."""
        with self._lock.writing():
            if self._changed is not None:
                return
            store, ids = fp16_store(self._dimension), [self._flat.ids.copy()]
            append(store, self._flat.vectors)
            if self._fast is not None:
                live = self._fast.live
                append(store, self._fast.vectors_at(live))
                ids.append(self._fast.ids)
            self._changed = {}
        try:
            fast = self.build(np.concatenate(ids), store)
        except BaseException:
            with self._lock.writing():
                self._changed = None
            raise
        with self._lock.writing():
            touched, self._changed = self._changed, None
            fast.remove(np.fromiter(touched, np.int64, len(touched)))
            kept = np.array(
                [row for row, i in enumerate(self._flat.ids) if touched.get(int(i))], int
            )
            flat = FlatBlock(self._dimension)
            flat.add(self._flat.ids[kept], self._flat.vectors[kept])
            self._flat, self._fast = flat, fast

    def content(self) -> Content:
        """Returns the content of the index, for a cache file.

        Copies the flat block, but only the ids of the fast one. A row that is set to zero while
        the file is written belongs to a change after ``mark``, which is applied again after
        loading.
        """
        while True:
            with self._lock.reading():
                # Check under the lock: gather() may just have finished with removed rows.
                if self._fast is None or not self._fast.dead:
                    return self._copy()
            self._wait()
            self.gather()

    def restore(self, content: Content) -> None:
        self._wait()
        with self._lock.writing():
            self._flat, self._fast, self._mark = content.flat, content.fast, content.mark

    def stats(self) -> IndexStats:
        with self._lock.reading():
            fast = self._fast
            return IndexStats(
                engine="faiss",
                kind=fast.kind if fast else "exact",
                count=len(self._flat) + (len(fast) if fast else 0),
                dimension=self._dimension,
                memory_bytes=self._flat.nbytes + (fast.nbytes if fast else 0),
                details={
                    "waiting": len(self._flat) if fast else 0,
                    "removed": fast.dead if fast else 0,
                    "seq": self._mark.seq if self._mark else 0,
                    "gpus": gpu_count(),
                },
            )

    def close(self) -> None:
        self._wait()

    def _copy(self) -> Content:
        flat = FlatBlock(self._dimension)
        flat.add(self._flat.ids, self._flat.vectors)
        fast = self._fast
        if fast is not None:
            fast = FastBlock(fast.ids, fast.store, fast.coder, fast.kind)
        return Content(flat, fast, self._mark)

    def _discard(self, ids: np.ndarray) -> int:
        return self._flat.remove(ids) + (self._fast.remove(ids) if self._fast else 0)

    def _note(self, ids: np.ndarray, present: bool) -> None:
        if self._changed is not None:
            self._changed.update(dict.fromkeys(ids.tolist(), present))

    def _gather_if_due(self) -> None:
        if self._exact_limit is None or self._changed is not None:
            return
        waiting, fast = len(self._flat), self._fast
        limit = self._exact_limit if fast is None else max(self._exact_limit // 2, len(fast) // 20)
        if waiting <= limit and (fast is None or fast.dead <= limit):
            return
        if not self._background:
            self.gather()
        elif self._gathering is None or not self._gathering.is_alive():
            self._gathering = threading.Thread(target=self.gather, daemon=True)
            self._gathering.start()

    def _wait(self) -> None:
        if self._gathering is not None:
            self._gathering.join()

    def build(self, ids: np.ndarray, store: Any) -> FastBlock:
        """Builds a fast block over a store, on GPUs if available and large enough."""
        if self._gpu and gpu_count():
            kind = plan_gpu(len(ids), self._dimension, free_gpu_memory(), self._gpu_budget)
            reason = "they do not fit"
            if kind is not None:
                try:
                    return FastBlock(ids, store, kind=kind)
                except RuntimeError as error:
                    reason = str(error).splitlines()[0]
            log.warning("%d vectors stay on the CPU, not the GPU: %s", len(ids), reason)
        return FastBlock(ids, store, kind="rabitq")


def _clean(scores: np.ndarray, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Sets the score of missing results to ``-inf``, as :class:`VectorIndex` requires."""
    if len(ids) and ids[:, -1].min() < 0:
        scores = np.where(ids < 0, -np.inf, scores).astype(np.float32)
    return scores, ids
