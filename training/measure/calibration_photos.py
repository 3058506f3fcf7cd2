"""Photos for calibration: aligned and embedded, with quality scores and groups."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.atomic import made_whole
from model.bundle import Bundle
from model.calibration.calibration import MAX_PHOTOS
from model.calibration.kinds import Copies
from model.calibration.pairs.people import draw_photos
from model.embedding.embedder import Embedder
from model.errors import CalibrationError
from model.faces.quality import judge
from model.types import Quality
from training.datasets import DATASETS, Table, lfw
from training.datasets import load as load_dataset
from training.datasets.corrections import corrected
from training.inputs.crops import Crops, crop_photos, why_lost
from training.inputs.photo_kinds import SPOILED
from training.learn.inference import BLOCK, embed_crops


@dataclass(frozen=True, eq=False)
class Photos:
    """Embedded photos of a labelled dataset; photos without a face are left out.

    Attributes:
        table: The whole dataset.
        crops: The face crops of all its photos.
        rows: Rows that were embedded.
        labels: Corrected label of each of these rows.
        embeddings: Unit vectors of these rows, float32 ``(len(rows), D)``.
        protocol: Description of the photos.
    """

    table: Table
    crops: Crops
    rows: np.ndarray
    labels: np.ndarray
    embeddings: np.ndarray
    fingerprint: str
    protocol: str

    @property
    def names(self) -> list[str]:
        """``person/file`` of each row, uncorrected, as used in group and correction files."""
        table = self.table
        return [f"{table.names[table.labels[row]]}/{table.paths[row].name}" for row in self.rows]


def embed_photos(
    bundle: Bundle,
    data: str,
    *,
    root: Path,
    part: str | None,
    cache: Path,
    corrections: Path | None = None,
) -> Photos:
    """Align and embed the photos of a dataset; vectors are cached by content.

    Args:
        data: Name of a dataset, or a folder with one folder per person.
        root: Folder of named datasets.
        part: LFW's ``DevTrain`` or ``DevTest``; None for all people.
        corrections: CSV of corrections; see :func:`training.datasets.corrections.corrected`.
    """
    table = load_dataset(data, root) if data in DATASETS else load_dataset("folder", data)
    if not (table.faces or table.aligned):
        raise CalibrationError(f"{data} has no photos of people to calibrate a face model on.")
    right = corrected(table, corrections) if corrections else None
    crops = crop_photos(table.paths, aligned=table.aligned, cache=cache)
    wanted = _rows(table, data, root, part)
    rows = wanted[crops.found[wanted]]
    if not len(rows):
        where = root if data in DATASETS else data
        raise CalibrationError(f"All {len(wanted):,} photos of {where} {why_lost(table.aligned)}.")
    digest = hashlib.sha256()
    for start in range(0, len(rows), BLOCK):
        digest.update(np.ascontiguousarray(crops.pixels[rows[start : start + BLOCK]]))
    fingerprint = digest.hexdigest()
    name = hashlib.sha256(f"{bundle.model_id} {fingerprint}".encode()).hexdigest()[:24]
    file = cache / f"vectors-{name}.npy"
    if not file.exists():
        vectors = embed_crops(Embedder(bundle, engine="fp32"), crops.pixels, rows)
        with made_whole(file) as partial:
            np.save(partial, vectors)
    embeddings, labels, mended = np.load(file), table.labels, ""
    lost = len(wanted) - len(rows)
    if right:
        labels, mended, kept = right.labels, f"; {right.in_words(rows)}", right.kept[rows]
        rows, embeddings = rows[kept], embeddings[kept]
    people = f" {part}" if part else ""
    protocol = (
        f"{table.name}{people}: {len(rows):,} photos of {len(set(labels[rows])):,} people, "
        f"{lost:,} photos without a face left out{mended}"
    )
    return Photos(table, crops, rows, labels[rows], embeddings, fingerprint, protocol)


def photo_quality(photos: Photos) -> np.ndarray | None:
    """The product's quality score of each photo; None for photos that were already aligned."""
    return judged_scores(photos.crops, photos.rows) if photos.crops.measures else None


def spoiled_copies(
    paths: Sequence[Path],
    labels: np.ndarray,
    embedder: Embedder,
    *,
    cache: Path,
    max_photos: int | None = MAX_PHOTOS,
    seed: int = 0,
) -> Copies:
    """Degraded copies of the photos a calibration would draw; one kind per person.

    Args:
        paths: The photos, in the order passed to the calibration.
        labels: Person of each photo, ``(N,)``.
        max_photos, seed: As passed to :meth:`Calibration.fit`.
    """
    rows, _ = draw_photos(labels, max_photos, seed)
    names = list(SPOILED)
    dealt = np.random.default_rng(seed).integers(len(names), size=int(labels.max()) + 1)
    kinds = [names[dealt[labels[row]]] for row in rows]
    crops = crop_photos([paths[row] for row in rows], kinds=kinds, cache=cache)
    found = np.flatnonzero(crops.found)
    return Copies(
        embed_crops(embedder, crops.pixels, found, title="embedding copies"),
        rows[found],
        judged_scores(crops, found),
        np.array(kinds)[found],
    )


def judged_scores(crops: Crops, rows: np.ndarray) -> np.ndarray:
    return np.array([quality.score for quality in judged(crops, rows)])


def judged(crops: Crops, rows: np.ndarray) -> list[Quality]:
    return [
        judge({name: float(values[row]) for name, values in crops.measures.items()}) for row in rows
    ]


def read_groups(path: Path) -> dict[str, str]:
    """Group by name of person or photo, from a CSV with the columns ``name`` and ``group``."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if not {"name", "group"} <= set(reader.fieldnames or ()):
                raise CalibrationError(
                    f"{path} needs the columns name and group in its first line."
                )
            return {row["name"]: (row["group"] or "").strip() for row in reader}
    except (OSError, UnicodeDecodeError) as error:
        raise CalibrationError(f"The groups {path} cannot be read: {error}.") from error


def photo_groups(given: Mapping[str, str], path: Path, photos: Photos) -> list[str]:
    """Group of each photo: its own, else its person's, else an empty string."""
    people = (photos.table.names[label] for label in photos.labels)
    groups = [
        given.get(name, given.get(person, ""))
        for name, person in zip(photos.names, people, strict=True)
    ]
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
