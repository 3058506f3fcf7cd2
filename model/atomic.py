"""Atomic file writes."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def made_whole(path: Path, *, private: bool = False) -> Iterator[Path]:
    """Yield a temporary file that becomes ``path``, on disk, on success and is removed on failure.

    Several threads and processes may write the same file. With ``private``, only the file's owner
    may read it.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.{secrets.token_hex(4)}.partial{path.suffix}")
    try:
        partial.touch(0o600 if private else 0o666)
        yield partial
        _sync(partial)
        os.replace(partial, path)
        if hasattr(os, "O_DIRECTORY"):  # Windows cannot open folders
            _sync(path.parent)
    finally:
        partial.unlink(missing_ok=True)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
