"""CelebA (Liu et al., 2015), or aligned face crops with one folder per identity."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from model.faces.image import SUFFIXES
from training.datasets.table import DatasetError, Table, by_folder, require_count

PICTURES, PEOPLE = 202_599, 10_177
WHERE = (
    "Give either the folder with img_align_celeba/ and identity_CelebA.txt of "
    "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html, or a folder of aligned 112 px crops, "
    "one folder an identity."
)


def load(root: Path) -> Table:
    """Load the original photos (to be detected and aligned), or aligned crops by identity."""
    listing = root / "identity_CelebA.txt"
    if listing.is_file():
        return _original(root, listing)
    folder = next((path for path in (root / "celeba", root) if path.is_dir()), root)
    paths, labels, names = by_folder(folder, SUFFIXES) if folder.is_dir() else ([], [], [])
    if not paths:
        raise DatasetError(f"CelebA: nothing usable in {root}. {WHERE}")
    return Table("celeba", tuple(paths), np.array(labels), tuple(names), faces=True, aligned=True)


def _original(root: Path, listing: Path) -> Table:
    rows = [line.split() for line in listing.read_text().splitlines() if line.strip()]
    names, labels = np.unique([identity for _, identity in rows], return_inverse=True)
    require_count(len(rows), PICTURES, f"pictures in {listing.name}", "CelebA")
    require_count(len(names), PEOPLE, f"people in {listing.name}", "CelebA")
    pictures = root / "img_align_celeba"
    paths = tuple(pictures / name for name, _ in rows)
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DatasetError(
            f"CelebA: {len(missing):,} of {len(paths):,} pictures named in {listing.name} are "
            f"missing, the first is {missing[0]}. {WHERE}"
        )
    return Table("celeba", paths, labels.astype(np.int64), tuple(map(str, names)), faces=True)
