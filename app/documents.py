"""Small documents and logs that processes or servers share, with one writer at a time."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

from model.atomic import made_whole

Edit = Callable[[bytes | None], bytes | None]


class Document(Protocol):
    """A small shared document: a file, or a database row that servers share."""

    name: str

    def stamp(self) -> object | None:
        """Return a version stamp that differs after each change; None if there is no content."""

    def read(self) -> bytes:
        """Return the content."""

    def change(self, edit: Edit) -> None:
        """Replace the content by the result of ``edit``, while holding the write lock."""


class Lines(Protocol):
    """An append-only log.

    Attributes:
        key: The secret that signs its lines.
    """

    key: Document

    def append(self, make: Callable[[bytes], bytes]) -> None:
        """Append the line that ``make`` returns for the previous line (empty for the first)."""

    def __iter__(self) -> Iterator[bytes]: ...


class FileDocument:
    """A document in a file that only its owner can read; each change replaces the file."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.name = file.name

    def stamp(self) -> tuple[int, int] | None:
        try:
            status = self.file.stat()
        except FileNotFoundError:
            return None
        return status.st_mtime_ns, status.st_ino

    def read(self) -> bytes:
        return self.file.read_bytes()

    def change(self, edit: Edit) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        # Lock a separate file, because each change replaces the document's file.
        with open(self.file.with_suffix(".lock"), "ab", opener=private) as held:
            lock_file(held.fileno())
            stored = self.read() if self.file.exists() else None
            content = edit(stored)
            if content is None:
                self.file.unlink(missing_ok=True)
            elif content != stored:
                with made_whole(self.file, private=True) as fresh:
                    fresh.write_bytes(content)


def private(path: str, flags: int) -> int:
    """An opener for :func:`open` that creates files with access for the owner only."""
    return os.open(path, flags, 0o600)


def lock_file(descriptor: int) -> None:
    """Wait until no other process holds the lock, then hold it until the file is closed."""
    try:
        import fcntl
    except ImportError:  # Windows: one process writes
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
