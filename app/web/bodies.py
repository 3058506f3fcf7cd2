"""Parse request bodies, with limits: ``multipart/form-data`` with files, or JSON with base64."""

from __future__ import annotations

import codecs
import json
from collections.abc import AsyncGenerator, Coroutine
from typing import Any, TypeVar

import fastapi
from pydantic import ValidationError
from python_multipart.multipart import parse_options_header
from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from app.settings import Settings
from app.usecases.results import Upload
from app.web.dependencies import AppState
from app.web.errors import Invalid, Malformed, TooLarge, WrongType, invalid
from app.web.schemas.requests import PhotoList, PhotosRequest, Request
from model.faces.image import FORMAT_HINT

R = TypeVar("R", bound=Request)


MULTIPART, JSON = "multipart/form-data", "application/json"

CHARSETS = ("utf-8", "ascii", "iso8859-1")
"""What the texts of a form may be written in, as Python names it. Of its many other codecs some
raise errors of their own, and some make characters that no text may hold."""

AS_JSON = ("overrides", "pairs")
"""Fields of a form that hold JSON."""

LARGE = 65536
"""Bodies longer than this, in bytes, are parsed in a worker thread."""


_MAGIC = (
    b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF8", b"BM", b"II*\0", b"MM\0*",
    b"P1", b"P2", b"P3", b"P4", b"P5", b"P6", b"Pf", b"PF",
)  # fmt: skip


async def read(request: fastapi.Request, kind: type[R], state: AppState) -> R:
    """Parse a request's body as ``kind``; large bodies are parsed off the event loop.

    Raises:
        WrongType: The body is neither multipart nor JSON, or a file is not an image.
        Malformed: The body cannot be parsed, or has more photos than the settings allow.
        Invalid: A field is missing, unknown or has a value that is not allowed.
        TooLarge: A photo has more bytes than the settings allow.
    """
    headers, body = request.headers, await request.body()
    if len(body) > LARGE:
        return await state.queue.run(_parsed, headers, body, kind, state.settings)
    return _parsed(headers, body, kind, state.settings)


def _parsed(headers: Headers, body: bytes, kind: type[R], settings: Settings) -> R:
    content_type = headers.get("content-type", "").split(";")[0].strip().lower()
    try:
        if content_type == JSON:
            parsed = kind.model_validate_json(body)
        elif content_type == MULTIPART:
            parsed = kind.model_validate(_form(headers, body, kind, settings))
        else:
            raise WrongType(
                f"The request's type is {content_type or 'not given'}; send {MULTIPART} with files "
                f"or {JSON} with base64.",
                allowed=[MULTIPART, JSON],
            )
    except ValidationError as error:
        raise _explained(error) from None
    if len(_pictures(parsed)) > settings.max_photos:
        raise _too_many(settings.max_photos)
    _check_pictures(parsed, settings.max_upload_bytes)
    return parsed


def uploads(request: PhotosRequest) -> list[Upload]:
    return [Upload(photo.name, photo.image, photo.face) for photo in request.photos]


def body_schema(kind: type[Request]) -> dict[str, Any]:
    """Return the OpenAPI schema of a body that may be JSON or multipart."""
    schema = kind.model_json_schema(ref_template="#/components/schemas/{model}")
    schema.pop("$defs", None)
    fields = {name: _as_file(name, value) for name, value in schema["properties"].items()}
    form = {**schema, "properties": fields}
    return {
        "requestBody": {
            "required": True,
            "content": {JSON: {"schema": schema}, MULTIPART: {"schema": form}},
        }
    }


def _as_file(name: str, schema: dict[str, Any]) -> dict[str, Any]:
    file = {"type": "string", "contentMediaType": "application/octet-stream"}
    described = {"description": schema.get("description", "")}
    if schema.get("contentEncoding") == "base64":
        return file | described
    if name == "photos":
        return {"type": "array", "items": file, "minItems": 1} | described
    if name in AS_JSON:
        text = described["description"] + " As JSON in text."
        return {"type": "string", "contentMediaType": JSON, "description": text}
    return schema


def _form(headers: Headers, body: bytes, kind: type[Request], settings: Settings) -> dict[str, Any]:
    _check_charset(headers)
    parser = MultiPartParser(
        headers, _stream(body), max_files=settings.max_photos, max_fields=20, max_part_size=65536
    )
    # The body is already in memory; never spool a photo to disk.
    parser.spool_max_size = settings.max_request_bytes + 1
    try:
        form = _run(parser.parse())
    except MultiPartException as error:
        if parser._current_files > settings.max_photos:
            raise _too_many(settings.max_photos) from None
        raise Malformed(f"The multipart body cannot be read: {error.message}") from None
    values: dict[str, Any] = {}
    for name in form:
        parts = [_part(part) for part in form.getlist(name)]
        if name == "photos":
            values[name] = [part if isinstance(part, dict) else {"image": part} for part in parts]
        elif len(parts) > 1:
            raise Invalid(f"The field {name!r} was sent {len(parts)} times; send it once.")
        elif isinstance(parts[0], dict):
            values[name] = parts[0]["image"]
        elif name in AS_JSON:
            values[name] = _json(name, parts[0])
        elif parts[0] != "" or kind.model_fields.get(name) is None:
            values[name] = parts[0]
    return values


def _check_charset(headers: Headers) -> None:
    charset = parse_options_header(headers["content-type"])[1].get(b"charset", b"utf-8")
    try:
        known = codecs.lookup(charset.decode("latin-1")).name in CHARSETS
    except (LookupError, ValueError):
        known = False
    if not known:
        raise Malformed("The form is written in a charset that is not read. Send it as UTF-8.")


async def _stream(body: bytes) -> AsyncGenerator[bytes, None]:
    yield body


def _run(parsing: Coroutine[Any, Any, FormData]) -> FormData:
    """Run a coroutine that never awaits I/O, because its input is in memory."""
    try:
        parsing.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("the form was not in memory")


def _part(part: UploadFile | str) -> dict[str, Any] | str:
    if isinstance(part, str):
        return part
    return {"image": part.file.read(), "name": (part.filename or "photo")[:255]}


def _json(name: str, text: str) -> Any:
    try:
        return json.loads(text) if text else {}
    except (ValueError, RecursionError):
        raise Invalid(f"The field {name!r} must be JSON.") from None


def _too_many(limit: int) -> Malformed:
    return Malformed(
        f"The request holds more than {limit} photos. Send them in several requests.",
        max_photos=limit,
    )


def _check_pictures(request: Request, limit: int) -> None:
    found = _pictures(request)
    for which, data in found:
        if len(data) > limit:
            raise TooLarge(
                f"The photo {which!r} has {len(data) / 1e6:.1f} MB; at most {limit / 1e6:.1f} MB "
                "are accepted.",
                photo=which,
                max_bytes=limit,
            )
    wrong = [which for which, data in found if data and not _looks_like_a_picture(data)]
    # If only some photos of a list are not images, each gets its own result instead.
    if wrong and (len(wrong) == len(found) or not isinstance(request, PhotoList)):
        raise WrongType(f"The photo {wrong[0]!r} is not a picture. {FORMAT_HINT}", photo=wrong[0])


def _pictures(request: Request) -> list[tuple[str, bytes]]:
    if isinstance(request, PhotoList):
        return [(photo.name, photo.image) for photo in request.photos]
    return [(field, value) for field, value in request if isinstance(value, bytes)]


def _looks_like_a_picture(data: bytes) -> bool:
    container = data[4:8] == b"ftyp" or (data[:4] == b"RIFF" and data[8:12] == b"WEBP")
    return container or data.startswith(_MAGIC)


def _explained(error: ValidationError) -> Malformed | Invalid:
    found = error.errors(include_url=False, include_input=False)
    if found[0]["type"] == "json_invalid":
        return Malformed(f"The JSON cannot be read: {found[0]['ctx']['error']}.")
    return invalid(found)
