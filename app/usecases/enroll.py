"""Enroll: check the photos of one person and store those that pass. Each photo gets a result."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from PIL import Image

from app.context import Context
from app.usecases.pipeline import only_face
from app.usecases.results import (
    OVERRIDABLE,
    DetectedFace,
    Enrollment,
    PhotoResult,
    PhotoStatus,
    Upload,
)
from index.enrollment_checks import EnrollmentChecks, Finding
from index.types import NewPhoto
from model.errors import FaceError, GalleryError, ImageTooLarge, NoFace, SeveralFaces
from model.types import Embedding

STATUS_OF_FINDING: dict[str, PhotoStatus] = {
    "same_photo": "duplicate",
    "poor_quality": "poor_quality",
    "other_name": "conflict",
    "already_enrolled": "conflict",
    "outlier": "outlier",
}
"""Status by finding, worst first. A photo with several findings gets the worst status."""

STATUS_OF_ERROR: dict[str, PhotoStatus] = {
    NoFace.code: "no_face",
    SeveralFaces.code: "several_faces",
    ImageTooLarge.code: "too_large",
}
"""Status by error code; any other error means ``bad_image``."""


@dataclass(frozen=True, eq=False)
class Prepared:
    """A photo ready to store, or the reason it cannot be stored.

    Attributes:
        upload: The photo as sent; its bytes are no longer needed.
        photo: The record for the gallery; None if there is a ``problem``.
        problem: The photo's result if it cannot be stored.
    """

    upload: Upload
    photo: NewPhoto | None = None
    face: DetectedFace | None = None
    problem: PhotoResult | None = None


def prepare(context: Context, photos: Sequence[Upload]) -> list[Prepared]:
    """Decode each photo, choose its face, assess it, and embed all photos in one batch."""
    found: list[tuple[Upload, DetectedFace | PhotoResult]] = []
    for upload in photos:
        try:
            photo = context.pipeline.photo(upload.data)
            found.append((upload, only_face(photo, upload.face, f"{upload.name!r}")))
        except FaceError as error:
            found.append((upload, failed(upload.name, error)))
    faces = [each for _, each in found if isinstance(each, DetectedFace)]
    vectors = iter(context.pipeline.embed(faces))
    return [
        Prepared(upload, problem=each)
        if isinstance(each, PhotoResult)
        else Prepared(upload, new_photo(context, upload, each, next(vectors)), each)
        for upload, each in found
    ]


def new_photo(
    context: Context,
    upload: Upload,
    face: DetectedFace,
    vector: np.ndarray,
    digest: str | None = None,
) -> NewPhoto:
    """Build the gallery's record of a photo: vector ``(D,)``, hash, quality, optional thumbnail."""
    return NewPhoto(
        embedding=Embedding(vector, context.bundle.model_id, face.quality.score),
        content_hash=digest or hashlib.sha256(upload.data).hexdigest(),
        quality=face.quality.score,
        source_name=upload.name,
        thumbnail=thumbnail(face) if context.settings.keep_thumbnails else None,
    )


def thumbnail(face: DetectedFace) -> bytes:
    target = io.BytesIO()
    Image.fromarray(face.crop).save(target, "JPEG", quality=85)
    return target.getvalue()


def failed(name: str, error: FaceError) -> PhotoResult:
    status = STATUS_OF_ERROR.get(error.code, "bad_image")
    return PhotoResult(name, status, error.message, details=dict(error.details))


def store(
    context: Context,
    name: str | None,
    prepared: Sequence[Prepared],
    *,
    consent: str = "",
    metadata: Mapping[str, str] | None = None,
    overrides: Mapping[str, str] | None = None,
    person_id: str | None = None,
    new_person: bool = False,
) -> Enrollment:
    """Check prepared photos against the gallery and store those that pass, in one commit.

    A new consent replaces the stored one, because someone typed it for this person. An empty or
    unchanged consent is not written. Batches keep the first consent; see
    :mod:`app.batch.metadata`.
    """
    consent = consent.strip()
    reasons = dict(overrides or {})
    if unknown := set(reasons) - set(OVERRIDABLE):
        raise ValueError(f"overrides may name {OVERRIDABLE}, not {sorted(unknown)}")
    usable = [each for each in prepared if each.photo is not None]
    if not usable:
        known = context.gallery.reader.get(person_id) if person_id else None
        return Enrollment(
            person_id, known.name if known else name or "", False,
            tuple(each.problem for each in prepared),
        )  # fmt: skip
    gallery = context.gallery
    # If the search engine is down, fail here, before taking the write lock.
    context.search.sync()
    with gallery.batch():
        person_id = person_id or (None if new_person else _known(context, name))
        name = gallery.reader.get(person_id).name if person_id else name
        found = findings(context, [each.photo for each in usable], name, person_id)
        results: dict[int, PhotoResult] = {}
        passed: list[tuple[Prepared, list[Finding]]] = []
        for each, mine in zip(usable, found, strict=True):
            if stopping := blocking(mine, reasons):
                results[id(each)] = refused(each, stopping)
            else:
                passed.append((each, mine))
        created = False
        if passed:
            new = [replace(each.photo, note=_note(mine, reasons)) for each, mine in passed]
            created = person_id is None
            if created:
                person_id = gallery.enroll(name, new, dict(metadata or {}), consent).id
            else:
                known = gallery.add_photos(person_id, new)
                if consent and consent != known.consent:
                    gallery.update(person_id, consent=consent)
            stored = gallery.reader.photos(person_id)[-len(new) :]
            for (each, mine), photo in zip(passed, stored, strict=True):
                results[id(each)] = accepted(each, photo.id, name, _overridden(mine, reasons))
    photos = tuple(each.problem or results[id(each)] for each in prepared)
    return Enrollment(person_id, name, created, photos)


def guard(context: Context) -> EnrollmentChecks:
    """Return the enrollment checks with the thresholds of the active calibration."""
    calibration = context.need_calibration()
    settings = context.settings
    return EnrollmentChecks(
        context.search,
        conflict=lambda met: calibration.search_threshold(met, settings.target_fpir).threshold,
        outlier=calibration.decide(0.0, settings.target_fmr).reject_below,
        min_quality=settings.min_quality,
    )


def _known(context: Context, name: str | None) -> str | None:
    """Return the id of the only person with this name, or None if nobody has it."""
    if name is None:
        raise ValueError("enroll needs a name or a person_id")
    same = context.gallery.reader.find_by_name(name)
    if len(same) > 1:
        raise GalleryError(
            f"{len(same)} people are named {name!r}. Say which one is meant by the id, or that "
            "this is another person.",
            people=[person.id for person in same],
        )
    return same[0].id if same else None


def findings(
    context: Context, photos: Sequence[NewPhoto], name: str, person_id: str | None
) -> list[list[Finding]]:
    """Return the findings of the enrollment checks for each photo, worst first."""
    order = list(STATUS_OF_FINDING)
    checked = guard(context).check(photos, name=name, person_id=person_id)
    found: list[list[Finding]] = [[] for _ in photos]
    for finding in sorted(checked, key=lambda each: order.index(each.code)):
        found[finding.photo].append(finding)
    return found


def blocking(found: Sequence[Finding], overrides: Mapping[str, str]) -> Finding | None:
    """Return the worst finding that no override covers, or None."""
    return next((each for each in found if STATUS_OF_FINDING[each.code] not in overrides), None)


def refused(each: Prepared, finding: Finding) -> PhotoResult:
    details = {
        key: value
        for key in ("code", "score", "limit", "person_id", "name")
        if (value := getattr(finding, key)) is not None
    }
    status = STATUS_OF_FINDING[finding.code]
    message = finding.message
    if status == "poor_quality" and each.face.quality.reasons:
        message = f"{each.upload.name}: {each.face.quality.reasons[0].message}"
    return PhotoResult(
        each.upload.name, status, message, None, each.face.quality, details, each.face.crop
    )


def accepted(
    each: Prepared, photo_id: str | None, name: str, details: dict[str, Any]
) -> PhotoResult:
    """Build the result of a stored photo; without an id, of one that would be stored."""
    said = "was" if photo_id else "would be"
    message = f"{each.upload.name} {said} stored for {name}."
    if each.face.ignored.message:
        message = f"{message} {each.face.ignored.message}"
        details = details | asdict(each.face.ignored)
    return PhotoResult(each.upload.name, "accepted", message, photo_id, each.face.quality, details)


def _note(found: Sequence[Finding], reasons: Mapping[str, str]) -> str:
    """Return the override reasons and their findings as text, stored with the photo."""
    statuses = dict.fromkeys(STATUS_OF_FINDING[each.code] for each in found)
    return "; ".join(f"{status.replace('_', ' ')}: {reasons[status]}" for status in statuses)


def _overridden(found: Sequence[Finding], reasons: Mapping[str, str]) -> dict[str, str]:
    if not found:
        return {}
    status = STATUS_OF_FINDING[found[0].code]
    return {"override": status, "reason": reasons[status]}
