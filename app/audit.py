"""The audit log: who did what, when, with which outcome; never a picture, vector or name.

One JSON object a line, only ever appended to. Each line carries the hash of the line before it,
so that a line taken out or changed later shows. The end of the log is not covered: that the last
lines, or all of them, were taken away does not show.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.documents import Lines, lock_file, private


class AuditLog:
    """Appends to one log, from any thread, several processes and servers.

    Args:
        place: Where to write; None keeps no log.
    """

    def __init__(self, place: Path | Lines | None) -> None:
        self._lines = FileLines(place) if isinstance(place, Path) else place

    def write(self, who: str, what: str, **facts: Any) -> None:
        """Append one line.

        Args:
            who: The key's name, or ``local``.
            what: The use-case.
            **facts: JSON values: verdict, ids, counts. No biometric data, no names.
        """
        if self._lines is None:
            return
        entry = {"when": datetime.now(UTC).isoformat(), "who": who, "what": what, **facts}

        def after(line: bytes) -> bytes:
            chained = entry | {"previous": _digest(line)}
            return json.dumps(chained, separators=(",", ":"), ensure_ascii=False).encode()

        self._lines.append(after)

    def check(self) -> int | None:
        """The first line that is damaged or does not follow from the one before, or None.

        Returns:
            The line's number, from 1.
        """
        previous = b""
        for number, line in enumerate(self._lines or (), start=1):
            if _named_before(line) != _digest(previous):
                return number
            previous = line
        return None


class FileLines:
    """The lines of a file that only its owner can read; an empty log without one."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self._lock = threading.Lock()

    def append(self, make: Callable[[bytes], bytes]) -> None:
        with self._lock, open(self.file, "ab+", opener=private) as log:
            lock_file(log.fileno())
            end = _end(log)
            line = make(end.rstrip(b"\n").rpartition(b"\n")[2]) + b"\n"
            # A crash may have cut the last line off: it must not spoil this one too.
            log.write(b"\n" + line if end and not end.endswith(b"\n") else line)
            log.flush()

    def __iter__(self) -> Iterator[bytes]:
        if self.file.exists():
            with self.file.open("rb") as log:
                for line in log:
                    yield line.rstrip(b"\n")


def _end(log: Any) -> bytes:
    """The last lines; far more bytes than one line has."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 65536))
    return log.read()


def _named_before(line: bytes) -> Any:
    """The digest a line has of the one before it; None for a damaged line."""
    try:
        return json.loads(line)["previous"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return None


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]
