"""What every tab needs: who is asking, errors in words, and the strip of sample photos."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
from html import escape
from typing import Any

import gradio as gr
from PIL import Image

from app.samples import Sample
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from model.errors import FaceError
from model.faces.image import load_image

log = logging.getLogger(__name__)

QUIET = {"api_visibility": "private"}
"""For every event: the page's own doors are not an API; that is what /v1 is for."""


def at_work(settings: Settings) -> dict[str, Any]:
    """For events that look at photos: all of them together keep to the number of workers."""
    return {"concurrency_id": "photos", "concurrency_limit": settings.workers, **QUIET}


# The mark tells a waiting program that a click is heard.
_STRIP = """
element.querySelectorAll("button").forEach((button, place) => {
  button.addEventListener("click", () => trigger("click", { place: place }));
});
element.querySelector(".fv-samples").dataset.ready = "yes";
"""


def acting(service: FaceService, request: gr.Request) -> FaceService:
    """The service on behalf of whoever is logged in."""
    return service.for_user(request.username)


def explain(error: Exception) -> str:
    """Any error as a card: ours as its own sentence, others with a reference into the log."""
    if isinstance(error, FaceError):
        return markup.message("warning", error.message)
    reference = secrets.token_hex(4)
    log.error("page error %s", reference, exc_info=error)
    return markup.message(
        "warning",
        "Something went wrong on our side.",
        f"Try again. If it stays, the server's log has the details under {reference}.",
    )


def placeholder(words: str) -> str:
    """What stands where a result will appear."""
    return f'<div class="fv-empty">{escape(words)}</div>'


def live(markup: str) -> str:
    """A result that screen readers announce when it changes."""
    return f'<div class="fv-stack" role="status" aria-live="polite">{markup}</div>'


def at_once(*values: Any) -> dict[str, Any]:
    """Arguments of an event that sets its outputs in the browser, without asking the server.

    What the server answers later to an earlier event can then not be overtaken by it.
    """
    return {"fn": None, "js": f"() => {json.dumps(values)}", **QUIET}


def sample_strip(samples: Sequence[Sample], words: str) -> gr.HTML:
    """Clickable examples; its click event carries the place of the one that was chosen."""
    buttons = "".join(
        f'<button type="button">{"".join(_thumbnail(photo.data) for photo in sample.photos)}'
        f"<span>{escape(sample.name)}</span></button>"
        for sample in samples
    )
    return gr.HTML(
        f'<div class="fv-samples" role="group" aria-label="{escape(words)}">'
        f"<span>{escape(words)}</span>{buttons}</div>",
        js_on_load=_STRIP,
        apply_default_css=False,
    )


def _thumbnail(data: bytes) -> str:
    image = Image.fromarray(load_image(data))
    image.thumbnail((96, 96))
    return f'<img src="{markup.encoded(image)}" alt="">'
