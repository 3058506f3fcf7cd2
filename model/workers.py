"""The number of processors and threads to use, and the setup of worker processes."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from multiprocessing import parent_process
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""The Linux control group with the CPU quota of a container."""

QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Environment variables for a shared machine: numpy's matrix products are too small here for
several threads, and waiting threads must not spin."""


def be_quiet() -> None:
    """Set the variables of :data:`QUIET` that the user has not set; call before importing numpy."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def processors() -> int:
    """Return how many processors this process may use: its affinity, limited by the CPU quota.

    If the system does not report its affinity, all processors count.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, quota(CGROUP))))


def quota(root: Path) -> float:
    """Return the CPU quota of the control group at ``root``, version 1 or 2; inf for none."""
    try:
        if (file := root / "cpu.max").is_file():
            most, period = file.read_text(encoding="ascii").split()
        else:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            most, period = ((root / "cpu" / name).read_text(encoding="ascii") for name in names)
        granted = float(most) / float(period)
    except (OSError, ValueError, ZeroDivisionError):  # no such file, or "max"
        return math.inf
    return granted if granted > 0 else math.inf


def begin_work() -> None:
    """Set up a worker of a process pool; call it first.

    Only the parent handles Ctrl-C. The worker exits with its parent, even if that is killed. torch
    uses one thread per worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if torch := sys.modules.get("torch"):  # only if already imported
        torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
