"""Your own photos: one folder per person."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from model.faces.image import SUFFIXES
from training.datasets.table import DatasetError, Table, by_folder


def load(root: Path) -> Table:
    """Load ``root/PERSON/*.jpg``, or other suffixes of :data:`model.faces.image.SUFFIXES`."""
    if not root.is_dir():
        raise DatasetError(
            f"There is no folder {root}. Give a folder that holds one folder per person."
        )
    paths, labels, names = by_folder(root, SUFFIXES)
    if len(names) < 2:
        raise DatasetError(
            f"{root} holds pictures of {len(names)} people. Training compares people: "
            f"put the photos of each in a folder of its own, such as {root / 'Ann' / '1.jpg'}."
        )
    return Table("folder", tuple(paths), np.array(labels), tuple(names), faces=True)
