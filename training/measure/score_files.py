"""Score files of other tools: plain text, one pair per line, higher scores for more alike.

``pyeer`` has same-person and stranger scores in two files, with the score in the last column.
``bob`` has both in one file with two columns: 1 (same person) or -1 (strangers), and the score.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from model.errors import CalibrationError


def read_pyeer(genuine: Path, impostor: Path) -> tuple[np.ndarray, np.ndarray]:
    """Same-person and stranger scores, float64, from one file each."""
    return _last_column(genuine), _last_column(impostor)


def read_bob(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Same-person and stranger scores, float64, from one two-column file."""
    labels, scores = [], []
    for number, words in _lines(path):
        if len(words) != 2 or words[0].lstrip("+") not in ("1", "-1", "1.0", "-1.0"):
            raise CalibrationError(
                f"{path}, line {number}: expected 1 or -1 and a score, found {' '.join(words)!r}."
            )
        labels.append(float(words[0]) > 0)
        scores.append(_number(words[1], path, number))
    same, values = np.array(labels, bool), np.array(scores, float)
    return values[same], values[~same]


def _last_column(path: Path) -> np.ndarray:
    return np.array([_number(words[-1], path, number) for number, words in _lines(path)], float)


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"The score file {path} cannot be read: {error}.") from error
    found = [(at, line.split()) for at, line in enumerate(text.splitlines(), 1) if line.strip()]
    if not found:
        raise CalibrationError(f"The score file {path} is empty.")
    return found


def _number(word: str, path: Path, line: int) -> float:
    try:
        value = float(word)
    except ValueError:
        value = float("nan")
    if not np.isfinite(value):
        raise CalibrationError(f"{path}, line {line}: {word!r} is not a score.")
    return value
