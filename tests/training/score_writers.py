"""Score files as other tools write them."""

from __future__ import annotations

from pathlib import Path

import numpy as np


def write_pyeer(same: Path, apart: Path, genuine: np.ndarray, impostor: np.ndarray) -> None:
    """One score a line, to the last digit."""
    for path, scores in ((same, genuine), (apart, impostor)):
        path.write_text("".join(f"{float(score)!r}\n" for score in scores))


def write_bob(path: Path, genuine: np.ndarray, impostor: np.ndarray) -> None:
    """Label and score of every pair, to the last digit."""
    pairs = [(1, score) for score in genuine] + [(-1, score) for score in impostor]
    path.write_text("".join(f"{label} {float(score)!r}\n" for label, score in pairs))
