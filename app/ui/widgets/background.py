"""Long-running work of the page, with progress; cancelled when the page is closed."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

T = TypeVar("T")
Step = tuple[str, int, int]
"""The stage in words, steps done and total steps."""


class SessionJobs:
    """One cancel event per open page; new work replaces the page's old event."""

    def __init__(self) -> None:
        self._events: dict[str, threading.Event] = {}
        self._lock = threading.Lock()

    @contextmanager
    def work(self, session: str | None) -> Iterator[threading.Event]:
        """Provide the cancel event of the work in this block.

        The event is also set when the block ends, so that no work continues after the page is
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
        """Cancel the session's work, if there is any."""
        with self._lock:
            event = self._events.pop(str(session), None)
        if event is not None:
            event.set()


def steps(work: Callable[..., T]) -> Iterator[Step | T]:
    """Run ``work`` in a thread; yield each progress step, then the result. Re-raises errors.

    Args:
        work: The work; takes ``progress``, which it calls at each step.
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
