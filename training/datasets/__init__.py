"""Registry of datasets; each has its own module."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from training.datasets import cars, celeba, cub, folder, lfw
from training.datasets.table import DatasetError, Table

DATASETS: dict[str, Callable[[Path], Table]] = {
    "lfw": lfw.load,
    "lfw40": lfw.people40,
    "cub": cub.load,
    "cars": cars.load,
    "celeba": celeba.load,
    "folder": folder.load,
}

__all__ = ["DATASETS", "DatasetError", "Table", "load"]


def load(name: str, root: Path | str) -> Table:
    """Load a dataset by name and check that it is complete."""
    if name not in DATASETS:
        raise ValueError(f"dataset is {name!r}; it must be one of {', '.join(DATASETS)}")
    return DATASETS[name](Path(root).expanduser())
