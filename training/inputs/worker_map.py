"""Map many photos in worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context
from typing import Any

from model.workers import begin_work

_work: Callable[[Any], Any]


@contextmanager
def worker_map(
    make: Callable[[], Callable[[Any], Any]], workers: int
) -> Iterator[Callable[[Iterable[Any]], Iterable[Any]]]:
    """Yield a map that keeps the order; every process calls what its own ``make()`` returned.

    One worker is this process.
    """
    if workers == 1:
        yield partial(map, make())
        return
    with ProcessPoolExecutor(
        workers, mp_context=get_context("spawn"), initializer=_begin, initargs=(make,)
    ) as pool:
        yield partial(pool.map, _run, chunksize=8)


def _begin(make: Callable[[], Callable[[Any], Any]]) -> None:
    global _work
    begin_work()
    _work = make()


def _run(item: Any) -> Any:
    return _work(item)
