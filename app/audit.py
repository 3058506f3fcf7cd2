"""The audit log: who did what, when, with which outcome; never a picture, vector or name.

One JSON object a line, only ever appended to. Each line ends with an HMAC over itself and the line
before it. Whoever does not have the log's key cannot change a line, take one out or add one unseen.
The end of the log is not covered: that the last lines, or all of them, were taken away does not
show.
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
        text = json.dumps(entry, separators=(",", ":"), ensure_ascii=False).encode()
        key = self._key
        self._lines.append(lambda previous: _signed(key, previous, text))

    def check(self) -> int | None:
        """The first line that is damaged or does not follow from the one before, or None.

        Returns:
            The line's number, from 1.
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
        """The log's key; before the first line there is none, or a new one."""
        key = b""

        def edit(stored: bytes | None) -> bytes | None:
            nonlocal key
            key = stored or (secrets.token_hex(32).encode() if make else b"")
            return key or None

        self._lines.key.change(edit)
        return key


class FileLines:
    """The lines of a file that only its owner can read; an empty log without one."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.key: Document = FileDocument(file.with_suffix(".key"))
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


def _signed(key: bytes, previous: bytes, text: bytes) -> bytes:
    """A line without its HMAC as it is written after another."""
    mac = hmac.digest(key, previous + b"\n" + text, hashlib.sha256).hex()
    return text[:-1] + _MAC + mac.encode() + b'"}'
