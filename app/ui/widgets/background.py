"""Long work of the page: told how far it is, and called off for good when nobody waits for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
Step = tuple[str, int, int]
"""A stage in words, steps done and steps in all."""


class SessionJobs:
    """One stop signal per open page; a new piece of work replaces the page's old signal."""

    def __init__(self) -> None:
        self._events: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    @contextmanager
    def work(self, session: str | None) -> Iterator[threading.Event]:
        """The signal of the work done in the block.

        It is also set when the block is left, so that nothing goes on behind a page that was
        closed.
        """
        event = threading.Event()
        with self._lock:
            self._events[str(session)] = event
        try:
            yield event
        finally:
            event.set()
            with self._lock:
                if self._events.get(str(session)) is event:
                    del self._events[str(session)]

    def stop(self, session: str | None) -> None:
        """Call off the session's work, if there is any."""
        with self._lock:
            event = self._events.pop(str(session), None)
        if event is not None:
            event.set()


def steps(work: Callable[..., T]) -> Iterator[Step | T]:
    """Progress as it comes, then the result; ends with the error the work ended with.

    Args:
        work: What to do, in a thread of its own; takes ``progress``, which it calls at each step.
    """
    heard: queue.Queue[Any] = queue.Queue()

    def run() -> None:
        try:
            heard.put(work(progress=lambda *step: heard.put(step)))
        except Exception as error:
            heard.put(error)

    threading.Thread(target=run, daemon=True).start()
    while True:
        step = heard.get()
        while isinstance(step, tuple) and not heard.empty():
            step = heard.get()
        if isinstance(step, Exception):
            raise step
        yield step
        if not isinstance(step, tuple):
            return
