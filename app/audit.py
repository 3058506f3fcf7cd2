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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.private_files import lock_file, private


class AuditLog:
    """Appends to one file, from any thread and several processes.

    Args:
        file: Where to write; None keeps no log.
    """

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self._lock = threading.Lock()

    def write(self, who: str, what: str, **facts: Any) -> None:
        """Append one line.

        Args:
            who: The key's name, or ``local``.
            what: The use-case.
            **facts: JSON values: verdict, ids, counts. No biometric data, no names.
        """
        if self.file is None:
            return
        entry = {"when": datetime.now(UTC).isoformat(), "who": who, "what": what, **facts}
        with self._lock, open(self.file, "ab+", opener=private) as log:
            lock_file(log.fileno())
            end = _end(log)
            entry["previous"] = _digest(end.rstrip(b"\n").rpartition(b"\n")[2])
            line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode() + b"\n"
            # A crash may have cut the last line off: it must not spoil this one too.
            log.write(b"\n" + line if end and not end.endswith(b"\n") else line)
            log.flush()

    def check(self) -> int | None:
        """The first line that is damaged or does not follow from the one before, or None.

        Returns:
            The line's number, from 1.
        """
        if self.file is None or not self.file.exists():
            return None
        previous = b""
        with self.file.open("rb") as log:
            for number, line in enumerate(log, start=1):
                line = line.rstrip(b"\n")
                if _named_before(line) != _digest(previous):
                    return number
                previous = line
        return None


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
