"""Helpers for every tab: the user's service, error messages, and the strip of sample photos."""

from __future__ import annotations

import json
import logging
import secrets
from collections.abc import Sequence
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
"""Arguments of every event: hide it from Gradio's API, because the public API is /v1."""


def at_work(settings: Settings) -> dict[str, Any]:
    """Arguments of events that process photos: together they use at most the worker count."""
    return {"concurrency_id": "photos", "concurrency_limit": settings.workers, **QUIET}


# The attribute tells browser tests that clicks are handled.
_STRIP = """
element.querySelectorAll("button").forEach((button, place) => {
  button.addEventListener("click", () => trigger("click", { place: place }));
});
element.querySelector(".fv-samples").dataset.ready = "yes";
"""


def acting(service: FaceService, request: gr.Request) -> FaceService:
    """Return the service for the logged-in user."""
    return service.for_user(request.username)


def explain(error: Exception) -> str:
    """Render an error: a FaceError as its message, others with a reference to the log."""
    if isinstance(error, FaceError):
        return markup.message("warning", error.message)
    reference = secrets.token_hex(4)
    log.error("page error %s", reference, exc_info=error)
    return markup.message(
        "warning",
        "Something went wrong on our side.",
        f"Try again. If it stays, the server's log has the details under {reference}.",
    )


def at_once(*values: Any, first: str | None = None) -> dict[str, Any]:
    """Return the arguments of an event that sets its outputs in the browser, without the server.

    It takes effect at once, so it cannot overwrite a server response that arrives later.

    Args:
        first: JavaScript for one more output before those; ``given`` is the first input.
    """
    constant = json.dumps(values)
    script = f"() => {constant}" if first is None else f"(given) => [{first}, ...{constant}]"
    return {"fn": None, "js": script, **QUIET}


def sample_strip(samples: Sequence[Sample], words: str) -> gr.HTML:
    """Return clickable examples; the click event carries the index of the example."""
    shown = [(each.name, [_thumbnail(photo.data) for photo in each.photos]) for each in samples]
    return gr.HTML(
        markup.render("samples.html", words=words, samples=shown),
        js_on_load=_STRIP,
        apply_default_css=False,
    )


def _thumbnail(data: bytes) -> str:
    image = Image.fromarray(load_image(data))
    image.thumbnail((96, 96))
    return markup.encoded(image)


def to_sight(element: str) -> dict[str, Any]:
    """Return the arguments of an event that scrolls an element into view, for small screens."""
    script = (
        f"() => {{ const part = document.getElementById('{element}');"
        " if (part && part.getBoundingClientRect().top > innerHeight * 0.6)"
        " part.scrollIntoView({ block: 'start' }); }"
    )
    return {"fn": None, "js": script, **QUIET}
