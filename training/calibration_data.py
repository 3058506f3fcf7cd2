"""Photos of people to calibrate on: found, aligned, embedded, judged and grouped."""

from __future__ import annotations

import csv
import hashlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tqdm import tqdm

from model.bundle import Bundle
from model.embedder import Embedder
from model.errors import CalibrationError
from model.quality import judge
from training.crops import Crops, crop_photos
from training.datasets import DATASETS, Table, lfw
from training.datasets import load as load_dataset
from training.partial import made_whole

BLOCK = 256


@dataclass(frozen=True, eq=False)
class Photos:
    """Embedded photos of a labelled collection; those without a face are left out."""

    table: Table
    crops: Crops
    rows: np.ndarray
    embeddings: np.ndarray
    fingerprint: str
    protocol: str


def embed_photos(bundle: Bundle, data: str, *, root: Path, part: str | None, cache: Path) -> Photos:
    """Find, align and embed the photos of a dataset; vectors are cached by content.

    Args:
        bundle: The model.
        data: Name of a dataset, or a folder with a folder a person.
        root: Where named datasets lie.
        part: ``DevTrain`` or ``DevTest`` for these people of LFW, None for everyone.
        cache: Folder for crops and vectors.
    """
    table = load_dataset(data, root) if data in DATASETS else load_dataset("folder", data)
    if not (table.faces or table.aligned):
        raise CalibrationError(f"{data} has no photos of people to calibrate a face model on.")
    crops = crop_photos(table.paths, aligned=table.aligned, cache=cache)
    wanted = _rows(table, data, root, part)
    rows = wanted[crops.found[wanted]]
    if not len(rows):
        raise CalibrationError(f"In none of the {len(wanted):,} photos of {root} a face was found.")
    digest = hashlib.sha256()
    for start in range(0, len(rows), BLOCK):
        digest.update(np.ascontiguousarray(crops.pixels[rows[start : start + BLOCK]]))
    fingerprint = digest.hexdigest()
    name = hashlib.sha256(f"{bundle.model_id} {fingerprint}".encode()).hexdigest()[:24]
    file = cache / f"vectors-{name}.npy"
    if not file.exists():
        embedder = Embedder(bundle)
        blocks = tqdm(range(0, len(rows), BLOCK), "embedding", unit="block")
        vectors = [embedder.embed(np.asarray(crops.pixels[rows[at : at + BLOCK]])) for at in blocks]
        with made_whole(file) as partial:
            np.save(partial, np.concatenate(vectors))
    people = f" {part}" if part else ""
    protocol = (
        f"{table.name}{people}: {len(rows):,} photos of {len(set(table.labels[rows])):,} people, "
        f"{len(wanted) - len(rows):,} photos without a face left out; all pairs; thresholds chosen "
        "on one half of the people, rates measured on the other"
    )
    return Photos(table, crops, rows, np.load(file), fingerprint, protocol)


def photo_quality(photos: Photos) -> np.ndarray | None:
    """Quality of each photo as the product judges it; None for photos that came aligned."""
    measures = photos.crops.measures
    if not measures:
        return None
    return np.array(
        [
            judge({name: float(values[row]) for name, values in measures.items()}).score
            for row in photos.rows
        ]
    )


def read_groups(path: Path, photos: Photos) -> list[str]:
    """Group of each photo from a CSV with the columns ``name`` and ``group``."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file)
        if not {"name", "group"} <= set(reader.fieldnames or ()):
            raise CalibrationError(f"{path} needs the columns name and group in its first line.")
        given = {row["name"]: (row["group"] or "").strip() for row in reader}
    groups = []
    for row in photos.rows:
        file = photos.table.paths[row]
        person = photos.table.names[photos.table.labels[row]]
        groups.append(given.get(f"{person}/{file.name}", given.get(person, "")))
    if not any(groups):
        raise CalibrationError(
            f"No name in {path} is a person (folder) or photo (folder/file) of the data."
        )
    return groups


def _rows(table: Table, data: str, root: Path, part: str | None) -> np.ndarray:
    if part is None:
        return np.arange(len(table))
    if data != "lfw":
        raise CalibrationError(f"--part {part} is LFW's own split; {data} has none.")
    return lfw.dev_rows(root, table, part)
