"""Trains until a checkpoint is written but not yet in place, then is killed.

Runs as ``python -m tests.training.killed NUMBER COMMAND ...``, where NUMBER counts the checkpoints
from 1 and the rest is what ``python -m training`` takes. Whoever waits for a file and then kills
may, on a busy machine, find the run finished.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from training.__main__ import main


def die_at(number: int) -> None:
    """Let this process be killed at the ``number``-th checkpoint."""
    replace, left = os.replace, number

    def replace_or_die(source: Path, target: Path) -> None:
        nonlocal left
        left -= Path(target).name == "last.pt"
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(source, target)

    os.replace = replace_or_die


if __name__ == "__main__":
    die_at(int(sys.argv[1]))
    sys.exit(main(sys.argv[2:]))
