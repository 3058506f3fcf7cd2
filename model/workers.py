"""Processors and the processes that share them."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process

import torch


def processors() -> int:
    """How many processors this process may use; where the system does not tell, all there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def begin_work() -> None:
    """Call first in a worker of a process pool: one thread each, and no life of its own.

    Ctrl-C is for the process that gives the work. When that one ends, however it ends, its
    workers end too; without this they would outlive a kill.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
