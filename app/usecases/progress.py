"""Long work: how it tells how far it is, and how it is called off."""

from __future__ import annotations

import threading
from collections.abc import Callable

from model.errors import FaceError

Progress = Callable[[str, int, int], None]
"""Called with a stage in words, steps done and steps in all."""


class Cancelled(FaceError):
    """The work was called off."""

    code = "cancelled"


def stop_if_asked(cancel: threading.Event | None, words: str) -> None:
    """End the work if its stop signal is set.

    Raises:
        Cancelled: It is; the message is ``words``.
    """
    if cancel is not None and cancel.is_set():
        raise Cancelled(words)
