"""Calibrate on the user's own photos: labelled folders -> faces -> embeddings -> calibration.

Photos are read one at a time and never stored.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from app.batch.photo_files import (
    UNZIPPING_ERRORS,
    PhotoFile,
    folder_photos,
    printable,
    zip_photos,
)
from app.context import Context
from app.usecases.pipeline import only_face
from app.usecases.progress import Progress, stop_if_asked
from model.calibration import Calibration
from model.calibration.adapt import adapt
from model.errors import CalibrationError, FaceError

MIN_PEOPLE = 10
BATCH = 32
MAX_ZIP_PHOTOS = 100_000
NAMELESS = "It lies in no person's folder, so whose photo it is cannot be told."


@dataclass(frozen=True, eq=False)
class OwnCalibration:
    """The result of a calibration on the user's own photos.

    Attributes:
        calibration: The new calibration, not yet active.
        people: People with at least one usable photo.
        skipped: Photos left out, as ``(name, reason)``.
        moved: True if there were too few photos to measure the target rate. The model's own
            calibration was then shifted to fit them instead.
    """

    calibration: Calibration
    people: int
    photos: int
    skipped: tuple[tuple[str, str], ...]
    moved: bool


def measure(
    context: Context,
    source: bytes | Path,
    *,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> OwnCalibration:
    """Measure the model; see :meth:`app.service.FaceService.calibrate_on`."""

    def report(stage: str, done: int, total: int) -> None:
        stop_if_asked(cancel, "The calibration was stopped; the one in use stays as it was.")
        if progress:
            progress(stage, done, total)

    found = _look(context, _photos(source, context), partial(report, "Looking at the photos"))
    names, numbers = np.unique(found.people, return_inverse=True)
    _enough(len(names), found.people, found.skipped)
    embeddings = np.concatenate(found.vectors)
    fingerprint = found.content.hexdigest()
    calibration = Calibration.fit(
        embeddings,
        numbers,
        model_id=context.bundle.model_id,
        quality=np.array(found.qualities),
        protocol="own photos",
        data_fingerprint=fingerprint,
        progress=partial(report, "Comparing pairs"),
    )
    shipped = context.bundle.calibration
    moved = not calibration.threshold(context.settings.target_fmr).supported and bool(shipped)
    if shipped and moved:
        calibration = adapt(shipped, embeddings, numbers, data_fingerprint=fingerprint).calibration
    return OwnCalibration(calibration, len(names), len(numbers), tuple(found.skipped), moved)


@dataclass(frozen=True, eq=False)
class _Found:
    """The usable photos, in order, and the others with the reason."""

    people: list[str] = field(default_factory=list)
    vectors: list[np.ndarray] = field(default_factory=list)
    qualities: list[float] = field(default_factory=list)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    content: Any = field(default_factory=hashlib.sha256)


def _look(
    context: Context, photos: Sequence[PhotoFile], report: Callable[[int, int], None]
) -> _Found:
    found, waiting = _Found(), []
    people = _people([file for file, _ in photos])
    for done, ((file, read), person) in enumerate(zip(photos, people, strict=True)):
        report(done, len(photos))
        name = printable(file)
        if person is None:
            found.skipped.append((name, NAMELESS))
            continue
        try:
            data = read()
            face = only_face(context.pipeline.photo(data), None, f"the photo {name!r}")
        except FaceError as error:
            found.skipped.append((name, error.message))
            continue
        found.content.update(hashlib.sha256(data).digest())
        found.people.append(person)
        found.qualities.append(face.quality.score)
        waiting.append(face)
        if len(waiting) == BATCH:
            found.vectors.append(context.pipeline.embed(waiting))
            waiting.clear()
    found.vectors.append(context.pipeline.embed(waiting))
    return found


def _enough(people: int, labels: list[str], skipped: list[tuple[str, str]]) -> None:
    _, counts = np.unique(labels, return_counts=True)
    several = int((counts > 1).sum())
    if people < MIN_PEOPLE or several < 2:
        raise CalibrationError(
            f"There are usable photos of {people} people, {several} of them with two or more. A "
            f"calibration needs at least {MIN_PEOPLE} people and several photos of most of them: "
            "one folder a person, one face a photo.",
            people=people,
            skipped=json.loads(json.dumps(skipped[:50])),
        )


def _photos(source: bytes | Path, context: Context) -> list[PhotoFile]:
    """List the photos of a zip, or of a folder within the settings' ``own_photos``."""
    settings = context.settings
    if isinstance(source, bytes):
        try:
            photos = zip_photos(io.BytesIO(source), settings.max_upload_bytes)
        except UNZIPPING_ERRORS as error:
            raise CalibrationError(f"The upload is not a readable zip file ({error}).") from error
        if len(photos) > MAX_ZIP_PHOTOS:
            raise CalibrationError(
                f"The zip holds {len(photos)} photos; at most {MAX_ZIP_PHOTOS} are read."
            )
        return photos
    if settings.own_photos is None:
        raise CalibrationError(
            "No folder may be read by name here. Upload a zip, or name the folder as "
            "'own_photos' in the settings."
        )
    root = (settings.own_photos / source).resolve()
    if not root.is_relative_to(settings.own_photos.resolve()) or not root.is_dir():
        raise CalibrationError(f"There is no folder {str(source)!r} within the allowed place.")
    return folder_photos(root, settings.max_upload_bytes)


def _people(files: Sequence[str]) -> list[str | None]:
    """Return the person of each file: the first folder below the common root, whatever its name."""
    folders = [PurePosixPath(file).parts[:-1] for file in files]
    levels = zip(*folders, strict=False)
    shared = len(list(takewhile(lambda names: len(set(names)) == 1, levels)))
    return [folder[shared] if len(folder) > shared else None for folder in folders]
