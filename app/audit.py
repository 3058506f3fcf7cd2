"""The audit log: who did what, when and with which result. It never holds images, vectors or names.

The log is append-only, with one JSON object per line. Each line ends with an HMAC over itself and
the previous line. Without the log's key, nobody can change, remove or insert a line undetected.
Truncation is not detected: the last lines, or all of them, can be removed.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from app.documents import Document, FileDocument, Lines, lock_file, private

_MAC = b',"mac":"'


class AuditLog:
    """Appends to one log; safe for several threads, processes and servers.

    Args:
        place: The log file or shared log; None disables logging.
    """

    def __init__(self, place: Path | Lines | None) -> None:
        self._lines = FileLines(place) if isinstance(place, Path) else place

    def write(self, who: str, what: str, **facts: Any) -> None:
        """Append one line.

        Args:
            who: The key's name, or ``local``.
            **facts: JSON values such as verdict, ids and counts; no biometric data, no names.
        """
        if self._lines is None:
            return
        entry = {"when": datetime.now(UTC).isoformat(), "who": who, "what": what, **facts}
        text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()
        key = self._key
        self._lines.append(lambda previous: _signed(key, previous, text))

    def check(self) -> int | None:
        """Verify the HMAC chain.

        Returns:
            The number, from 1, of the first damaged line or line that does not match its
            predecessor; None if the chain is intact.
        """
        if self._lines is None:
            return None
        key, previous = self._stored_key(make=False), b""
        for number, line in enumerate(self._lines, start=1):
            text = line.rpartition(_MAC)[0] + b"}"
            if not hmac.compare_digest(line, _signed(key, previous, text)):
                return number
            previous = line
        return None

    @cached_property
    def _key(self) -> bytes:
        return self._stored_key(make=True)

    def _stored_key(self, *, make: bool) -> bytes:
        """Return the log's key; if there is none, create one if ``make``, else return ``b""``."""
        key = b""

        def edit(stored: bytes | None) -> bytes | None:
            nonlocal key
            key = stored or (secrets.token_hex(32).encode() if make else b"")
            return key or None

        self._lines.key.change(edit)
        return key


class FileLines:
    """A log in a file that only its owner can read; a missing file is an empty log."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.key: Document = FileDocument(file.with_suffix(".key"))
        self._lock = threading.Lock()

    def append(self, make: Callable[[bytes], bytes]) -> None:
        with self._lock, open(self.file, "ab+", opener=private) as log:
            lock_file(log.fileno())
            end = _end(log)
            line = make(end.rstrip(b"\n").rpartition(b"\n")[2]) + b"\n"
            # A crash may have truncated the last line; start a new one so this line stays intact.
            log.write(b"\n" + line if end and not end.endswith(b"\n") else line)
            log.flush()

    def __iter__(self) -> Iterator[bytes]:
        if self.file.exists():
            with self.file.open("rb") as log:
                for line in log:
                    yield line.rstrip(b"\n")


def _end(log: Any) -> bytes:
    """Return the last 64 KiB, far more than one line."""
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - 65536))
    return log.read()


def _signed(key: bytes, previous: bytes, text: bytes) -> bytes:
    """Append the HMAC over ``previous`` and ``text`` to a line's JSON."""
    mac = hmac.digest(key, previous + b"\n" + text, hashlib.sha256).hex()
    return text[:-1] + _MAC + mac.encode() + b'"}'
