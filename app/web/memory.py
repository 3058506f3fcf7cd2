"""Memory given back to the system after large photos: the C library would keep it for later."""

from __future__ import annotations

import ctypes
import threading

TRIM_SECONDS = 10.0
"""How often what is unused is given back."""

MMAP_THRESHOLD = 4_000_000
"""Larger blocks are taken from the system and given back one by one, in bytes."""

_M_MMAP_THRESHOLD, _M_ARENA_MAX = -3, -8  # of glibc's malloc.h


def bound_memory(stop: threading.Event) -> threading.Thread | None:
    """Keep the process no larger than what it works on; glibc alone needs it and has the means.

    Args:
        stop: Set it to end the thread.

    Returns:
        The thread that gives memory back, or None with another C library.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "malloc_trim"):
        return None
    # Each thread would have a heap of its own, and each keep its largest photo.
    libc.mallopt(_M_ARENA_MAX, 2)
    libc.mallopt(_M_MMAP_THRESHOLD, MMAP_THRESHOLD)

    def trim() -> None:
        while not stop.wait(TRIM_SECONDS):
            libc.malloc_trim(0)

    thread = threading.Thread(target=trim, name="malloc-trim", daemon=True)
    thread.start()
    return thread
