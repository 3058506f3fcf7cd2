"""The exception classes of this project.

Each class has a stable ``code`` for programs; the message is a sentence for people.
"""

from __future__ import annotations

from typing import Any, ClassVar


class FaceError(Exception):
    """Base of all errors this project raises on purpose.

    Args:
        message: What happened, to which input, and what to do next.
        **details: JSON-serialisable details for programs.
    """

    code: ClassVar[str] = "face_error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class BadImage(FaceError):
    """The input is not a picture, or one that is not accepted."""

    code = "bad_image"


class ImageTooLarge(BadImage):
    """The picture has too many bytes or pixels."""

    code = "image_too_large"


class NoFace(FaceError):
    """No face was detected in the picture."""

    code = "no_face"


class SeveralFaces(FaceError):
    """The picture shows several faces, but exactly one was requested."""

    code = "several_faces"


class BundleError(FaceError):
    """A model bundle is missing, damaged or cannot be read by this version."""

    code = "bundle_error"


class BundleMismatch(BundleError):
    """Data of two different models would be mixed."""

    code = "bundle_mismatch"


class CalibrationError(FaceError):
    """A calibration is missing, unreadable, or not sufficient for the request."""

    code = "calibration_error"


class EngineUnavailable(FaceError):
    """The requested device or inference engine is not available on this machine."""

    code = "engine_unavailable"


class GalleryError(FaceError):
    """The gallery refused an operation."""

    code = "gallery_error"


class UnknownPerson(GalleryError):
    """No person (or photo) with that id or name is in the gallery."""

    code = "unknown_person"


class EnrollmentConflict(GalleryError):
    """An enrollment check found a reason not to store a photo."""

    code = "enrollment_conflict"


class GalleryUnavailable(GalleryError):
    """The gallery's database is locked, full, damaged, unwritable or closed."""

    code = "gallery_unavailable"


class WrongKey(GalleryError):
    """The gallery is encrypted and the key is missing or wrong."""

    code = "wrong_key"


class IndexUnavailable(FaceError):
    """The vector index or its server cannot be used right now."""

    code = "index_unavailable"
