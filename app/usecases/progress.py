"""Progress and cancellation of long-running work."""

from __future__ import annotations

import threading
from collections.abc import Callable

from model.errors import FaceError

Progress = Callable[[str, int, int], None]
"""Called with the stage in words, steps done and total steps."""


class Cancelled(FaceError):
    code = "cancelled"


def stop_if_asked(cancel: threading.Event | None, words: str) -> None:
    """Stop the work if ``cancel`` is set.

    Raises:
        Cancelled: ``cancel`` is set; the message is ``words``.
    """
    if cancel is not None and cancel.is_set():
        raise Cancelled(words)
