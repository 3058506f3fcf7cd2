"""What every tab needs: who is asking, errors in words, and the strip of sample photos."""

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


def at_once(*values: Any, first: str | None = None) -> dict[str, Any]:
    """Arguments of an event that sets its outputs in the browser, without asking the server.

    What the server answers later to an earlier event can then not be overtaken by it.

    Args:
        values: What the outputs become.
        first: JavaScript for an output before those, from ``given``, the first input.
    """
    constant = json.dumps(values)
    script = f"() => {constant}" if first is None else f"(given) => [{first}, ...{constant}]"
    return {"fn": None, "js": script, **QUIET}


def sample_strip(samples: Sequence[Sample], words: str) -> gr.HTML:
    """Clickable examples; its click event carries the place of the one that was chosen."""
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
    """Arguments of an event that brings a part of the page into sight, for small screens."""
    script = (
        f"() => {{ const part = document.getElementById('{element}');"
        " if (part && part.getBoundingClientRect().top > innerHeight * 0.6)"
        " part.scrollIntoView({ block: 'start' }); }"
    )
    return {"fn": None, "js": script, **QUIET}
