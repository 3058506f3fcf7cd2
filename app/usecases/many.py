"""Many photos at once: verify pairs, and cluster photos by person."""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from app.context import Context
from app.usecases.pipeline import only_face
from app.usecases.progress import Progress, stop_if_asked
from app.usecases.results import DetectedFace
from model import wording
from model.errors import FaceError
from model.types import Verdict

COLUMNS = ("first", "second", "decision", "score", "fmr", "headline", "error")
"""Columns of the output CSV; the first two are copied from the input."""

BATCH = 32


@dataclass(frozen=True)
class Pair:
    """The names of two photos to compare."""

    first: str
    second: str


@dataclass(frozen=True)
class PairAnswer:
    """The result of a pair: a verdict, or an error code from :mod:`model.errors`."""

    pair: Pair
    verdict: Verdict | None
    error: str = ""
    message: str = ""

    def row(self) -> dict[str, str]:
        """Return the result as a CSV row."""
        row = {"first": self.pair.first, "second": self.pair.second, "error": self.error}
        if self.verdict is None:
            return {**dict.fromkeys(COLUMNS, ""), **row, "headline": self.message}
        return row | {
            "decision": self.verdict.decision,
            "score": f"{self.verdict.score:.4f}",
            "fmr": f"{self.verdict.fmr.value:.3g}",
            "headline": wording.headline(self.verdict),
        }


def verify_many(
    context: Context,
    pairs: Sequence[Pair],
    read: Callable[[str], bytes],
    *,
    target_fmr: float | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[PairAnswer]:
    """Compare pairs one after another; each photo is processed only once.

    Args:
        context: Model and calibration.
        pairs: The pairs to compare.
        read: Returns a photo's bytes, given its name.
        target_fmr: Highest allowed false-match rate.
        cancel: Set it to stop.
    """
    calibration = context.need_calibration()
    target = context.settings.target_fmr if target_fmr is None else target_fmr
    seen: dict[str, tuple[DetectedFace, np.ndarray] | FaceError] = {}
    for pair in pairs:
        stop_if_asked(cancel, "Stopped; the pairs before are answered.")
        sides = [_seen(context, seen, name, read) for name in (pair.first, pair.second)]
        failed = next((each for each in sides if isinstance(each, FaceError)), None)
        if failed is not None:
            yield PairAnswer(pair, None, failed.code, failed.message)
            continue
        (face_a, vector_a), (face_b, vector_b) = sides
        score = float(np.clip(vector_a @ vector_b, -1, 1))
        quality = min(face_a.quality.score, face_b.quality.score)
        yield PairAnswer(pair, calibration.decide(score, target, quality=quality))


def _seen(
    context: Context,
    seen: dict[str, tuple[DetectedFace, np.ndarray] | FaceError],
    name: str,
    read: Callable[[str], bytes],
) -> tuple[DetectedFace, np.ndarray] | FaceError:
    if name not in seen:
        try:
            face = only_face(context.pipeline.photo(read(name)), None, repr(name))
            seen[name] = face, context.pipeline.embed([face])[0]
        except FaceError as error:
            seen[name] = error
    return seen[name]


def read_pairs(file: Path) -> list[Pair]:
    """Read pairs from a CSV with two columns, with or without a header row.

    Raises:
        ValueError: A line has fewer than two columns.
    """
    with file.open(newline="", encoding="utf-8-sig") as lines:
        rows = [row for row in csv.reader(lines) if any(cell.strip() for cell in row)]
    if rows and [cell.strip().lower() for cell in rows[0][:2]] == ["first", "second"]:
        rows = rows[1:]
    for number, row in enumerate(rows, 1):
        if len(row) < 2:
            raise ValueError(f"{file.name}: pair {number} has one column; it needs two photos.")
    return [Pair(row[0].strip(), row[1].strip()) for row in rows]


@dataclass(frozen=True, eq=False)
class Clustered:
    """Photos grouped by person.

    Attributes:
        groups: Photo names, one group per person, largest group first.
        crops: Face crop by photo name.
        failed: Photos without a usable face, with the reason.
    """

    groups: tuple[tuple[str, ...], ...]
    crops: dict[str, np.ndarray]
    failed: tuple[tuple[str, str], ...]


def cluster(
    context: Context,
    photos: Sequence[str],
    read: Callable[[str], bytes],
    *,
    target_fmr: float | None = None,
    progress: Progress | None = None,
) -> Clustered:
    """Group photos of unknown people by person, using the calibrated threshold.

    Groups are joined by their average score, so one false match does not merge two people.
    """
    faces: list[tuple[str, DetectedFace]] = []
    failed = []
    for done, name in enumerate(photos):
        if progress:
            progress("Looking at the photos", done, len(photos))
        try:
            faces.append((name, only_face(context.pipeline.photo(read(name)), None, repr(name))))
        except FaceError as error:
            failed.append((name, error.message))
    vectors = np.concatenate(
        [context.pipeline.embed([face for _, face in faces[at : at + BATCH]])
         for at in range(0, max(1, len(faces)), BATCH)]
    )  # fmt: skip
    target = context.settings.target_fmr if target_fmr is None else target_fmr
    limit = context.need_calibration().threshold(target).threshold
    groups = [tuple(faces[place][0] for place in group) for group in _groups(vectors, limit)]
    groups.sort(key=lambda group: (-len(group), group))
    crops = {name: face.crop for name, face in faces}
    return Clustered(tuple(groups), crops, tuple(failed))


def _groups(vectors: np.ndarray, limit: float) -> list[list[int]]:
    """Average linkage: join the two most similar groups until no pair reaches the limit."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(vectors) < 2:
        return [[place] for place in range(len(vectors))]
    distances = 1 - (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    labels = fcluster(linkage(np.clip(distances, 0, 2), "average"), 1 - limit, "distance")
    return [list(np.flatnonzero(labels == label)) for label in np.unique(labels)]
