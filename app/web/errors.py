"""Turn errors into HTTP responses: status, error code, message and request id."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from itertools import islice
from typing import Any

from fastapi.responses import Response

from app.auth import DamagedKeys, NotAllowed, NotAuthenticated
from app.web.limits import Busy, TooManyRequests
from model import errors

request_id: ContextVar[str] = ContextVar("request_id", default="-")
"""Id of the current request; every log line and response carries it."""


class Refused(errors.FaceError):
    """The request comes from another site, or names a host that is not this server."""

    code = "refused"


class TooLarge(errors.FaceError):
    """The request or a file in it is larger than allowed."""

    code = "too_large"


class WrongType(errors.FaceError):
    """The content type of the request, or of a file in it, is not accepted."""

    code = "wrong_type"


class Malformed(errors.FaceError):
    """The request cannot be read."""

    code = "malformed"


class SlowUpload(errors.FaceError):
    """The request did not arrive in time."""

    code = "slow_upload"


class Invalid(errors.FaceError):
    """The request can be read, but a field has a value that is not allowed."""

    code = "invalid"


STATUS: dict[type[errors.FaceError], int] = {
    Malformed: 400,
    errors.BadImage: 400,
    errors.ImageTooLarge: 413,
    NotAuthenticated: 401,
    NotAllowed: 403,
    Refused: 403,
    errors.UnknownPerson: 404,
    SlowUpload: 408,
    errors.SeveralFaces: 409,
    errors.EnrollmentConflict: 409,
    errors.GalleryError: 409,
    errors.BundleMismatch: 409,
    TooLarge: 413,
    WrongType: 415,
    Invalid: 422,
    errors.NoFace: 422,
    errors.CalibrationError: 422,
    TooManyRequests: 429,
    Busy: 503,
    DamagedKeys: 503,
    errors.GalleryUnavailable: 503,
    errors.WrongKey: 503,
    errors.BundleError: 503,
    errors.EngineUnavailable: 503,
    errors.IndexUnavailable: 503,
}

RETRY_SECONDS = 5
"""``Retry-After`` of a 503, in seconds, if the error does not set one."""

_PROBLEMS = {
    "missing": "is missing",
    "extra_forbidden": "is not known here; /docs lists the fields",
    "list_type": "must be a list",
    "too_short": "must not be empty",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "model_attributes_type": "must be an object",
}
"""Our wording by pydantic error type; other types already carry our own message."""


MAX_PROBLEMS = 20
"""Most problems reported for one request."""


def invalid(found: Iterable[Mapping[str, Any]]) -> Invalid:
    fields = []
    for each in islice(found, MAX_PROBLEMS):
        field = ".".join(str(part) for part in each["loc"] if part != "[key]")
        subject = f"The field {field!r}" if field else "The request"
        problem = _PROBLEMS.get(each["type"], each["msg"])
        fields.append({"field": field, "message": f"{subject} {problem}."})
    return Invalid(fields[0]["message"], fields=fields)


def status_of(error: errors.FaceError) -> int:
    """Return an error's HTTP status: that of its class, else of its nearest base class."""
    return next((STATUS[kind] for kind in type(error).__mro__ if kind in STATUS), 500)


def answer(error: errors.FaceError) -> Response:
    """Return the error as a JSON response, with the headers its status needs."""
    status = status_of(error)
    headers = {}
    wait = error.details.get("retry_after", RETRY_SECONDS if status == 503 else None)
    if wait is not None:
        headers["Retry-After"] = str(wait)
    if status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    return plain_answer(status, error.code, error.message, error.details, headers)


def plain_answer(
    status: int,
    code: str,
    message: str,
    details: dict[str, Any] | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    """Return ``{"error": {"code", "message", "details"}, "request_id"}`` as a response."""
    body = {**described(code, message, details), "request_id": request_id.get()}
    return Response(
        json.dumps(body, ensure_ascii=True, default=str), status, headers, "application/json"
    )


def described(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return an error as JSON data, the same for the API and the command line."""
    return {"error": {"code": code, "message": message, "details": details or {}}}
