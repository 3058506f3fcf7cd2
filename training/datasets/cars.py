"""Stanford Cars: 16,185 pictures of 196 models (Krause et al., 2013)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from scipy.io import loadmat

from training.datasets.table import DatasetError, Table, require, require_count

WHERE = (
    "The layout is cars_train/, cars_test/ and devkit/ (cars_meta.mat, cars_train_annos.mat, "
    "cars_test_annos_withlabels.mat), the pictures perhaps one folder deeper "
    "(cars_train/cars_train/), for example from "
    "https://www.kaggle.com/datasets/jessicali9530/stanford-cars-dataset."
)


def load(root: Path) -> Table:
    """Load the pictures and annotations of the development kit.

    Without the labelled test part, only the training part is loaded; ``notes`` says so.
    """
    folder = root / "stanford_cars" if (root / "stanford_cars").is_dir() else root
    needed = ("cars_train", "devkit/cars_meta.mat", "devkit/cars_train_annos.mat")
    require(folder, needed, "Stanford Cars", WHERE)
    meta = loadmat(folder / "devkit/cars_meta.mat", squeeze_me=True)
    names = tuple(str(name) for name in meta["class_names"])
    require_count(len(names), 196, "classes", "Stanford Cars")
    paths, labels = _annotations(folder, "cars_train", "cars_train_annos.mat")
    require_count(len(paths), 8_144, "training pictures", "Stanford Cars")
    train = np.ones(len(paths), bool)
    notes: tuple[str, ...] = ()
    test_annotations = "cars_test_annos_withlabels.mat"
    if (folder / "cars_test").is_dir() and (folder / "devkit" / test_annotations).is_file():
        more, more_labels = _annotations(folder, "cars_test", test_annotations)
        require_count(len(more), 8_041, "test pictures", "Stanford Cars")
        paths, labels = paths + more, np.concatenate([labels, more_labels])
        train = np.arange(len(paths)) < len(train)
    else:
        notes = ("the 8,041 official test pictures or their labels are not here",)
    missing = [path for path in paths if not path.is_file()]
    if missing:
        raise DatasetError(
            f"Stanford Cars: {len(missing):,} of {len(paths):,} pictures are missing, the first "
            f"is {missing[0]}. {WHERE}"
        )
    return Table("cars", tuple(paths), labels, names, official_train=train, notes=notes)


def _annotations(folder: Path, part: str, file: str) -> tuple[list[Path], np.ndarray]:
    rows = np.atleast_1d(loadmat(folder / "devkit" / file, squeeze_me=True)["annotations"])
    labels = rows["class"].astype(np.int64) - 1
    # Kaggle's archives nest each picture folder in another of the same name.
    nested = folder / part / part
    pictures = nested if nested.is_dir() else folder / part
    return [pictures / str(name) for name in rows["fname"]], labels
