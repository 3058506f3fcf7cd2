"""Every failure a caller may want to tell apart, as one small tree.

Each class has a stable ``code`` for programs; the message is a sentence for people.
"""

from __future__ import annotations

from typing import Any, ClassVar


class FaceError(Exception):
    """Base of all errors this project raises on purpose.

    Args:
        message: What happened, to which input, and what to do next.
        **details: JSON-serialisable facts a program may use.
    """

    code: ClassVar[str] = "face_error"

    def __init__(self, message: str, **details: Any) -> None:
        super().__init__(message)
        self.message = message
        self.details = details


class BadImage(FaceError):
    """The input is not a picture we can or will decode."""

    code = "bad_image"


class ImageTooLarge(BadImage):
    """The picture has more bytes or pixels than are accepted."""

    code = "image_too_large"


class NoFace(FaceError):
    """The picture decodes but holds no detectable face."""

    code = "no_face"


class SeveralFaces(FaceError):
    """The picture holds several faces and the caller asked for exactly one."""

    code = "several_faces"


class LowQuality(FaceError):
    """A face was found, but it is too poor to be used as asked."""

    code = "low_quality"


class BundleError(FaceError):
    """A model bundle is missing, damaged or cannot be read by this version."""

    code = "bundle_error"


class BundleMismatch(BundleError):
    """Two things made by different models were about to be mixed."""

    code = "bundle_mismatch"


class CalibrationError(FaceError):
    """A calibration is missing, unreadable, or cannot answer what was asked."""

    code = "calibration_error"


class EngineUnavailable(FaceError):
    """The requested device or inference engine does not exist on this machine."""

    code = "engine_unavailable"


class GalleryError(FaceError):
    """The gallery refused an operation."""

    code = "gallery_error"


class UnknownPerson(GalleryError):
    """No person (or photo) with that id or name is in the gallery."""

    code = "unknown_person"


class EnrollmentConflict(GalleryError):
    """The enrollment guard found a reason not to store a photo."""

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
