"""A limit on the pixels that all requests together may decode at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class PixelBudget:
    """Admits photos in order of arrival while their pixels fit; the others wait.

    No photo waits forever, because the work on each photo is bounded.

    Args:
        pixels: Most pixels held at once. A larger photo is admitted alone.
    """

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels
        self.held = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        """Wait until this many pixels fit, then hold them."""
        wanted, ticket = min(pixels, self.pixels), object()
        with self._changed:
            self._waiting.append(ticket)
            try:
                self._changed.wait_for(lambda: self._fits(ticket, wanted))
                self.held += wanted
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()
        try:
            yield
        finally:
            with self._changed:
                self.held -= wanted
                self._changed.notify_all()

    def _fits(self, ticket: object, wanted: int) -> bool:
        return self._waiting[0] is ticket and self.held + wanted <= self.pixels
