"""How a process that works for another one behaves."""

from __future__ import annotations

import os
import signal
import threading
from multiprocessing import parent_process

import torch


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
