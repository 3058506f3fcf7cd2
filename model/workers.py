"""How many processors and threads this program uses: decided here alone."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from multiprocessing import parent_process
from pathlib import Path

CGROUP = Path("/sys/fs/cgroup")
"""Where Linux says how much processor time a container may use."""

QUIET = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_WAIT_POLICY": "PASSIVE",
}
"""Environment of a process that shares its machine: numpy's products here are small, and threads
that wait for work must not spin."""


def be_quiet() -> None:
    """Set :data:`QUIET` where the user has not; call it before numpy is imported."""
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)


def processors() -> int:
    """How many processors this process may use at once: its affinity, within its container's quota.

    Where the system does not tell, all there are.
    """
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, quota(CGROUP))))


def quota(root: Path) -> float:
    """Processors that the control group mounted at ``root`` grants, in either version."""
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
    """Call first in a worker of a process pool: one thread each, and no life of its own.

    Ctrl-C is for the process that gives the work. When that one ends, however it ends, its
    workers end too; without this they would outlive a kill.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if torch := sys.modules.get("torch"):  # only where the work brought it along
        torch.set_num_threads(1)


def _end_with_parent() -> None:
    parent = parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)
