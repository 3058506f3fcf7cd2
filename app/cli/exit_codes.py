"""Exit codes of the command line."""

from __future__ import annotations

from app.auth import NotAllowed, NotAuthenticated
from app.batch.sources import BadSource
from app.settings import BadSetting
from model import errors

SAME, DIFFERENT, INCONCLUSIVE = 0, 1, 2
KNOWN, UNKNOWN = 0, 1
USAGE, PHOTO, SEVERAL, GALLERY, MODEL, OTHER, INTERRUPTED = 3, 4, 5, 6, 7, 8, 130

OF_DECISION = {"same": SAME, "different": DIFFERENT, "inconclusive": INCONCLUSIVE}


class WrongUsage(errors.FaceError):
    """The command cannot run with these arguments."""

    code = "wrong_usage"


class Unexpected(errors.FaceError):
    code = "internal"


_CODES: dict[type[errors.FaceError], int] = {
    WrongUsage: USAGE,
    BadSetting: USAGE,
    BadSource: USAGE,
    errors.BadImage: PHOTO,
    errors.NoFace: PHOTO,
    errors.SeveralFaces: SEVERAL,
    errors.GalleryError: GALLERY,
    errors.GalleryUnavailable: MODEL,
    errors.BundleError: MODEL,
    errors.CalibrationError: MODEL,
    errors.EngineUnavailable: MODEL,
    errors.IndexUnavailable: MODEL,
    NotAuthenticated: OTHER,
    NotAllowed: OTHER,
}


def code_of(error: errors.FaceError) -> int:
    """Return an error's exit code: that of its class, else of its nearest base class."""
    return next((_CODES[kind] for kind in type(error).__mro__ if kind in _CODES), OTHER)
