"""The photo picker: drop, paste, choose or take a photo; it stays in the browser until used.

The photo is sent inside the event that uses it. Gradio's own image input would store every upload
in a folder that it serves by URL. Here there is no file and no URL, so nobody else can download
it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence

import gradio as gr

from app.settings import Settings
from app.ui.cards import markup
from app.ui.theme import STATIC
from app.usecases.results import Upload
from model import wording
from model.errors import BadImage

_SCRIPT = (STATIC / "picker.js").read_text(encoding="utf-8")


def photo_picker(
    label: str, settings: Settings, *, several: bool = False, elem_id: str | None = None
) -> gr.HTML:
    """Return a picker whose value :func:`read_uploads` parses; empty string without a photo."""
    template = markup.render(
        "picker.html",
        label=label,
        several="yes" if several else "no",
        multiple="multiple" if several else "",
        what="photos" if several else "a photo",
        max_bytes=settings.max_upload_bytes,
        # Photos are sent as base64, which is a third larger, plus some overhead.
        max_total=int(settings.max_request_bytes * 0.7),
        max_photos=settings.max_photos,
    )
    return gr.HTML(
        value="",
        html_template=str(template),
        js_on_load=_SCRIPT,
        apply_default_css=False,
        elem_id=elem_id,
        label=label,
    )


def read_uploads(value: str | None, settings: Settings) -> list[Upload]:
    """Parse the photos in a picker's value, in order; may be empty.

    Raises:
        BadImage: The value does not come from a picker, or a photo is too large.
    """
    if not value:
        return []
    try:
        items = json.loads(value)
        uploads = [
            Upload(str(item["name"])[:200], _decode(item["data"]), _face(item.get("face")))
            for item in items
        ]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadImage("The photo did not arrive as a picture. Choose it again.") from error
    for upload in uploads:
        if len(upload.data) > settings.max_upload_bytes:
            raise BadImage(
                f"{upload.name} has {wording.size(len(upload.data))}; at most "
                f"{wording.size(settings.max_upload_bytes)} are accepted. Use a smaller copy."
            )
    if len(uploads) > settings.max_photos:
        raise BadImage(
            f"{len(uploads)} photos are too many at once; take at most {settings.max_photos}."
        )
    return uploads


def picker_value(uploads: Sequence[Upload]) -> str:
    """Return the value that fills a picker with these photos."""
    return json.dumps(
        [
            {
                "name": upload.name,
                "data": "data:image/jpeg;base64," + base64.b64encode(upload.data).decode(),
                **({"face": upload.face} if upload.face else {}),
            }
            for upload in uploads
        ]
    )


def digest(upload: Upload) -> str:
    """Return a photo's hash, its identity, because two photos may have the same name."""
    return hashlib.sha256(upload.data).hexdigest()


def _face(number: object) -> int | None:
    """Return the number of the face chosen earlier, if any."""
    return number if isinstance(number, int) and number > 0 else None


def _decode(address: str) -> bytes:
    head, _, body = address.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise binascii.Error("no base64 data address")
    return base64.b64decode(body, validate=True)
