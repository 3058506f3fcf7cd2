"""Held-out people of other collections, to calibrate on or to check a calibration on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from model.calibration import Calibration
from model.calibration.check import PromiseCheck, check_promises
from model.calibration.pairs.further import Further
from model.embedding.embedder import Embedder
from model.errors import CalibrationError
from model.faces.image import SUFFIXES
from training.datasets.face_set import held_out, named
from training.inputs.crops import crop_photos
from training.learn.inference import embed_crops


def held_out_photos(folder: Path) -> tuple[list[Path], np.ndarray]:
    """Photos of held-out people, and the label of each photo.

    A person is a folder with photos. Whole folders directly below ``folder`` are held out, each a
    person or a family.

    Raises:
        CalibrationError: Nobody is held out.
    """
    root = named(folder)
    paths = sorted(
        path
        for path in root.rglob("*")
        if path.suffix.lower() in SUFFIXES
        and held_out(f"{root.name}/{path.relative_to(root).parts[0]}")
    )
    if not paths:
        raise CalibrationError(f"{folder} holds no photos of people who are held out.")
    people = [path.parent.as_posix() for path in paths]
    return paths, np.unique(people, return_inverse=True)[1]


def held_out_people(folder: Path, embedder: Embedder, *, cache: Path) -> Further:
    paths, labels = held_out_photos(folder)
    crops = crop_photos(paths, cache=cache)
    rows = np.flatnonzero(crops.found)
    vectors = embed_crops(embedder, crops.pixels, rows, title=f"embedding {folder.name}")
    return Further(folder.name, vectors, labels[rows])


def check_collection(
    calibration: Calibration, people: Further, *, half: bool = False
) -> tuple[PromiseCheck, ...]:
    """Check the calibration's thresholds on a collection.

    Args:
        half: The thresholds were chosen on one half of these people: check on the other.
    """
    rows = np.flatnonzero(people.half() == 1) if half else np.arange(len(people.labels))
    return check_promises(calibration, people.embeddings[rows], people.labels[rows])


def further_in_words(further: Sequence[Further]) -> str:
    """Further collections of a calibration, as the end of its protocol."""
    parts = (f"{each.name} ({len(np.unique(each.labels)):,} people)" for each in further)
    return f"; they must hold on {' and '.join(parts)} too" if further else ""
