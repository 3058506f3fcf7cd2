"""Files that several processes write, one at a time, and that only their owner can read."""

from __future__ import annotations

import os


def private(path: str, flags: int) -> int:
    """An opener for :func:`open`: a file it makes is its owner's alone."""
    return os.open(path, flags, 0o600)


def lock_file(descriptor: int) -> None:
    """Wait until no other process holds the lock, then hold it until the file is closed."""
    try:
        import fcntl
    except ImportError:  # Windows: one process writes
        return
    fcntl.flock(descriptor, fcntl.LOCK_EX)
