"""The audit log: who did what, when, with which outcome; never a picture, vector or name.

One JSON object a line, only ever appended to. Each line carries the hash of the line before it,
so that a line taken out or changed later shows.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from app.locks import lock_file, private


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
            entry["previous"] = _digest(_last_line(log))
            line = json.dumps(entry, separators=(",", ":"), ensure_ascii=False)
            log.write(line.encode() + b"\n")
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


def _last_line(log: Any) -> bytes:
    end = log.seek(0, os.SEEK_END)
    start = max(0, end - 65536)
    log.seek(start)
    return log.read().rstrip(b"\n").rpartition(b"\n")[2]


def _named_before(line: bytes) -> Any:
    """The digest a line has of the one before it; None for a damaged line."""
    try:
        return json.loads(line)["previous"]
    except (KeyError, RecursionError, TypeError, ValueError):
        return None


def _digest(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()[:16]
