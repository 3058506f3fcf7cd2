"""Calibrate on the user's own photos: labelled folders -> faces -> embeddings -> calibration.

Photos are read one at a time and never stored.
"""

from __future__ import annotations

import hashlib
import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path, PurePath, PurePosixPath

import numpy as np

from app.batch.sources import UNZIPPING_ERRORS, file_reader, is_photo, printable, zip_reader
from app.context import Context
from app.usecases.pipeline import only_face
from app.usecases.progress import Progress, stop_if_asked
from app.usecases.results import DetectedFace
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


@dataclass(frozen=True)
class _Source:
    person: str | None
    name: str
    read: Callable[[], bytes]


def measure(
    context: Context,
    source: bytes | Path,
    *,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> OwnCalibration:
    """Measure the model; see :meth:`app.service.FaceService.calibrate_on`."""
    report = progress or (lambda stage, done, total: None)
    stopped = "The calibration was stopped; the one in use stays as it was."

    sources = (
        _from_zip(source, context) if isinstance(source, bytes) else _from_folder(source, context)
    )
    labels: list[str] = []
    vectors: list[np.ndarray] = []
    qualities: list[float] = []
    skipped: list[tuple[str, str]] = []
    waiting: list[DetectedFace] = []
    content = hashlib.sha256()
    for done, photo in enumerate(sources):
        stop_if_asked(cancel, stopped)
        report("Looking at the photos", done, len(sources))
        if photo.person is None:
            skipped.append((photo.name, NAMELESS))
            continue
        try:
            data = photo.read()
            face = only_face(context.pipeline.photo(data), None, f"the photo {photo.name!r}")
        except FaceError as error:
            skipped.append((photo.name, error.message))
            continue
        content.update(hashlib.sha256(data).digest())
        labels.append(photo.person)
        qualities.append(face.quality.score)
        waiting.append(face)
        if len(waiting) == BATCH:
            vectors.append(context.pipeline.embed(waiting))
            waiting.clear()
    if waiting:
        vectors.append(context.pipeline.embed(waiting))
    names, numbers = np.unique(labels, return_inverse=True)
    _enough(len(names), labels, skipped)

    def pairs(done: int, total: int) -> None:
        stop_if_asked(cancel, stopped)
        report("Comparing pairs", done, total)

    embeddings = np.concatenate(vectors)
    calibration = Calibration.fit(
        embeddings,
        numbers,
        model_id=context.bundle.model_id,
        quality=np.array(qualities),
        protocol="own photos",
        data_fingerprint=content.hexdigest(),
        progress=pairs,
    )
    shipped = context.bundle.calibration
    moved = not calibration.threshold(context.settings.target_fmr).supported and bool(shipped)
    if shipped and moved:
        calibration = adapt(
            shipped, embeddings, numbers, data_fingerprint=content.hexdigest()
        ).calibration
    return OwnCalibration(calibration, len(names), len(labels), tuple(skipped), moved)


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


def _from_folder(folder: Path, context: Context) -> list[_Source]:
    allowed = context.settings.own_photos
    if allowed is None:
        raise CalibrationError(
            "No folder may be read by name here. Upload a zip, or name the folder as "
            "'own_photos' in the settings."
        )
    root = (allowed / folder).resolve()
    if not root.is_relative_to(allowed.resolve()) or not root.is_dir():
        raise CalibrationError(f"There is no folder {str(folder)!r} within the allowed place.")
    return list(_walk(root, context.settings.max_upload_bytes))


def _people(paths: Sequence[PurePath]) -> list[str | None]:
    """Return the person of each path: the first folder below the common root, whatever its name."""
    folders = [path.parts[:-1] for path in paths]
    levels = zip(*folders, strict=False)
    shared = len(list(takewhile(lambda names: len(set(names)) == 1, levels)))
    return [folder[shared] if len(folder) > shared else None for folder in folders]


def _walk(root: Path, max_bytes: int) -> Iterator[_Source]:
    inside = [
        file.relative_to(root) for file in sorted(root.rglob("*"))
        if file.is_file() and file.resolve().is_relative_to(root)
    ]  # fmt: skip
    photos = list(filter(is_photo, inside))
    for path, person in zip(photos, _people(photos), strict=True):
        yield _Source(
            person, printable(path.as_posix()), file_reader(root / path, max_bytes, within=root)
        )


def _from_zip(data: bytes, context: Context) -> list[_Source]:
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
        entries = archive.infolist()
    except UNZIPPING_ERRORS as error:
        raise CalibrationError(f"The upload is not a readable zip file ({error}).") from error
    if len(entries) > MAX_ZIP_PHOTOS:
        raise CalibrationError(
            f"The zip holds {len(entries)} files; at most {MAX_ZIP_PHOTOS} are read."
        )
    lock = threading.Lock()
    photos = [
        entry for entry in entries
        if not entry.is_dir() and is_photo(PurePosixPath(entry.filename))
    ]  # fmt: skip
    people = _people([PurePosixPath(entry.filename) for entry in photos])
    return [
        _Source(person, entry.filename,
                zip_reader(archive, entry, lock, context.settings.max_upload_bytes))
        for entry, person in zip(photos, people, strict=True)
    ]  # fmt: skip
