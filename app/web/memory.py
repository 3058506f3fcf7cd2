"""Return memory to the system after large photos; by default the C library keeps it."""

from __future__ import annotations

import ctypes
import threading

TRIM_SECONDS = 10.0
"""Interval between returns of unused memory."""

MMAP_THRESHOLD = 4_000_000
"""Larger blocks, in bytes, are allocated with mmap and returned to the system when freed."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of glibc's malloc.h


def bound_memory(stop: threading.Event) -> threading.Thread | None:
    """Keep the process's memory close to what it uses. Only glibc needs this, and supports it.

    Args:
        stop: Set it to end the thread.

    Returns:
        The thread that returns memory, or None with another C library.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        return None
    # By default each thread has its own heap and keeps memory for its largest photo.
    libc.mallopt(_M_ARENA_MAX, 2)
    libc.mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)

    def trim() -> None:
        while not stop.wait(TRIM_SECONDS):
            libc.malloc_trim(0)

    thread = threading.Thread(target=trim, name="malloc-trim", daemon=True)
    thread.start()
    return thread
