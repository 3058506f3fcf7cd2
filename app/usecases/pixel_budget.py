"""A bound on the pixels decoded at once, by all requests together."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class PixelBudget:
    """Lets photos in while their pixels fit, in the order they came; others wait.

    Waiting ends: whoever holds pixels finishes, for the work on a photo is bounded.

    Args:
        pixels: Most pixels held at once. A photo of more than that is let in alone.
    """

    def __init__(self, pixels: int) -> None:
        self.pixels = pixels
        self.held = 0
        self._waiting: deque[object] = deque()
        self._changed = threading.Condition()

    @contextmanager
    def hold(self, pixels: int) -> Iterator[None]:
        """Hold so many pixels; waits until they fit."""
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
