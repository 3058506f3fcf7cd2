"""Prepare the next batches on a thread while the network works on this one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
_DONE: Any = object()


def prefetch(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """Yield ``items`` in order, computed up to ``depth`` ahead on another thread.

    An exception in ``items`` is raised here. Leaving the loop early stops the thread.
    """
    source = iter(items)
    pool = ThreadPoolExecutor(1)
    try:
        ahead = deque(pool.submit(next, source, _DONE) for _ in range(depth))
        while (item := ahead.popleft().result()) is not _DONE:
            ahead.append(pool.submit(next, source, _DONE))
            yield item
    finally:
        pool.shutdown(cancel_futures=True)
