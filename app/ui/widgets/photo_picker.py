"""The photo picker: drop, paste, choose or take a photo, kept in the browser until it is used.

The photo travels inside the event that uses it. Gradio's own image input would store every
upload in a folder it serves by URL; here there is no file and no URL, so nobody else can fetch
it.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from html import escape

import gradio as gr

from app import text
from app.settings import Settings
from app.ui.theme import STATIC
from app.usecases.results import Upload
from model.errors import BadImage

_SCRIPT = (STATIC / "picker.js").read_text(encoding="utf-8")

_TEMPLATE = """
<div class="fv-picker" role="group" aria-label="{label}" data-several="{several}"
     data-max-bytes="{max_bytes}" data-max-total="{max_total}" data-max-photos="{max_photos}">
  <div class="fv-picker-head"><span>{label}</span>
    <button type="button" class="fv-link" data-part="clear" hidden
            aria-label="Clear {label}">Clear</button></div>
  <div class="fv-drop">
    <div class="fv-drop-empty" data-part="empty" aria-hidden="true">
      <svg viewBox="0 0 24 24"><rect x="3" y="4" width="18" height="16" rx="3"/>
      <circle cx="12" cy="10.5" r="2.8"/>
      <path d="M6.5 19c.6-3 2.8-4.5 5.5-4.5s4.9 1.5 5.5 4.5"/></svg>
      <span>Drop or paste {what} here</span></div>
    <div class="fv-previews" data-part="previews"></div>
    <div class="fv-live" data-part="live" hidden>
      <video data-part="video" autoplay playsinline muted></video>
      <div><button type="button" class="fv-button" data-part="snap">Take the photo</button>
      <button type="button" class="fv-button" data-part="stop">Cancel</button></div></div>
  </div>
  <div class="fv-picker-foot">
    <button type="button" class="fv-button" data-part="choose"
            aria-label="Choose {what}: {label}">Choose {what}</button>
    <button type="button" class="fv-button" data-part="camera"
            aria-label="Use the camera: {label}">Use the camera</button>
    <p class="fv-picker-status" data-part="status" role="status"></p></div>
  <input data-part="input" type="file" accept="image/*,.heic,.avif" {multiple} hidden
         aria-label="{label}" tabindex="-1">
</div>
"""


def photo_picker(
    label: str, settings: Settings, *, several: bool = False, elem_id: str | None = None
) -> gr.HTML:
    """A picker whose value :func:`read_uploads` understands; an empty string without a photo.

    Args:
        label: What the photo is; also its accessible name.
        settings: Limits on photos.
        several: Whether more than one photo may be given.
        elem_id: Its id in the page.
    """
    template = _TEMPLATE.format(
        label=escape(label),
        several="yes" if several else "no",
        multiple="multiple" if several else "",
        what="photos" if several else "a photo",
        max_bytes=settings.max_upload_bytes,
        # Photos travel as base64 with some wrapping, which takes a third more room.
        max_total=int(settings.max_request_bytes * 0.7),
        max_photos=settings.max_photos,
    )
    return gr.HTML(
        value="",
        html_template=template,
        js_on_load=_SCRIPT,
        apply_default_css=False,
        elem_id=elem_id,
        label=label,
    )


def read_uploads(value: str | None, settings: Settings) -> list[Upload]:
    """The photos in a picker's value, in order; empty without any.

    Raises:
        BadImage: The value is not what a picker sends, or a photo is too large.
    """
    if not value:
        return []
    try:
        items = json.loads(value)
        uploads = [Upload(str(item["name"])[:200], _decode(item["data"])) for item in items]
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise BadImage("The photo did not arrive as a picture. Choose it again.") from error
    for upload in uploads:
        if len(upload.data) > settings.max_upload_bytes:
            raise BadImage(
                f"{upload.name} has {text.size(len(upload.data))}; at most "
                f"{text.size(settings.max_upload_bytes)} are accepted. Use a smaller copy."
            )
    if len(uploads) > settings.max_photos:
        raise BadImage(
            f"{len(uploads)} photos are too many at once; take at most {settings.max_photos}."
        )
    return uploads


def picker_value(uploads: Sequence[Upload]) -> str:
    """What to send to a picker to fill it."""
    return json.dumps(
        [
            {
                "name": upload.name,
                "data": "data:image/jpeg;base64," + base64.b64encode(upload.data).decode(),
            }
            for upload in uploads
        ]
    )


def digest(upload: Upload) -> str:
    """The hash of a photo: two shots of a camera may share their name."""
    return hashlib.sha256(upload.data).hexdigest()


def _decode(address: str) -> bytes:
    head, _, body = address.partition(",")
    if not head.startswith("data:") or not head.endswith(";base64"):
        raise binascii.Error("no base64 data address")
    return base64.b64decode(body, validate=True)
