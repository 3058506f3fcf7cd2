"""The log of a run, a CSV file."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any


def write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    """Rewrite the whole file, so that a resumed run has no duplicate rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    names = list(dict.fromkeys(name for row in rows for name in row))
    with path.open("w", newline="") as handle:
        writer = csv.DictWriter(handle, names)
        writer.writeheader()
        writer.writerows(rows)


def read_csv(path: Path) -> list[dict[str, float]]:
    """The numbers in a file of :func:`write_csv`, without the ``split`` column."""
    with path.open(newline="") as handle:
        return [
            {key: float(value) for key, value in row.items() if value and key != "split"}
            for row in csv.DictReader(handle)
        ]


def separation(row: dict[str, float]) -> float:
    """d' of an evaluation; minus infinity if it is missing or NaN."""
    value = row.get("d_prime", math.nan)
    return -math.inf if math.isnan(value) else value
