"""Prepare the next batches on a thread while the network works on this one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

Item = TypeVar("Item")
_DONE = object()


def prefetch(items: Iterable[Item], depth: int = 2) -> Iterator[Item]:
    """Yield ``items`` in order, computed up to ``depth`` ahead on another thread.

    An exception in ``items`` is raised here. Leaving the loop early stops the thread.
    """
    queue: Queue = Queue(depth)
    stop = Event()
    error: list[BaseException] = []

    def work() -> None:
        try:
            for item in items:
                queue.put(item)
                if stop.is_set():
                    return
        except BaseException as raised:
            error.append(raised)
        finally:
            if not stop.is_set():
                queue.put(_DONE)

    thread = Thread(target=work, daemon=True)
    thread.start()
    try:
        while (item := queue.get()) is not _DONE:
            yield item
        if error:
            raise error[0]
    finally:
        stop.set()
        while not queue.empty():
            queue.get_nowait()
        thread.join(timeout=10)
