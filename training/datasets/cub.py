"""CUB-200-2011: 11,788 pictures of 200 species of birds (Wah et al., 2011)."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from training.datasets.table import DatasetError, Table, require, require_count

WHERE = (
    "Download CUB_200_2011.tgz from https://data.caltech.edu/records/65de6-vp158, unpack it, "
    "and give the folder that holds CUB_200_2011 (or that folder itself)."
)
LISTS = ("images.txt", "image_class_labels.txt", "train_test_split.txt", "classes.txt")


def load(root: Path) -> Table:
    """Load the official lists."""
    folder = root / "CUB_200_2011" if (root / "CUB_200_2011").is_dir() else root
    require(folder, ("images", *LISTS), "CUB-200-2011", WHERE)
    files = [line.split(maxsplit=1)[1] for line in _lines(folder / "images.txt")]
    labels = np.array([int(line.split()[1]) for line in _lines(folder / LISTS[1])]) - 1
    train = np.array([line.split()[1] == "1" for line in _lines(folder / LISTS[2])])
    names = [line.split(maxsplit=1)[1] for line in _lines(folder / LISTS[3])]
    require_count(len(files), 11_788, "pictures in images.txt", "CUB-200-2011")
    require_count(len(names), 200, "classes", "CUB-200-2011")
    require_count(int(train.sum()), 5_994, "official training pictures", "CUB-200-2011")
    paths = tuple(folder / "images" / file for file in files)
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DatasetError(
            f"CUB-200-2011: {len(missing):,} of 11,788 pictures are missing, the first is "
            f"{missing[0]}. {WHERE}"
        )
    return Table("cub", paths, labels.astype(np.int64), tuple(names), official_train=train)


def _lines(path: Path) -> list[str]:
    return path.read_text().split("\n")[:-1]
