"""Size limits of Gradio's file inputs, shown beside the input and when a file is too large."""

from __future__ import annotations

import json

import gradio as gr
from markupsafe import Markup

from app.settings import Settings
from model import wording

_WRAPPING = 10_000
"""Bytes of a request in addition to the file, with some margin."""

# Listens on the document, before Gradio does: Gradio's own message offers no remedy.
_SCRIPT = """
const { file, limit } = JSON.parse(element.querySelector("[data-limit]").dataset.limit);
const refusal = element.querySelector("[role=alert]");
function check(event) {
  if (!event.target.closest?.("#" + file)) return;
  const given = [...((event.dataTransfer ?? event.target).files ?? [])];
  const large = given.find((each) => each.size > limit);
  refusal.textContent = "";
  if (!large) return;
  refusal.textContent = `${large.name} has ${(large.size / 1e6).toFixed(0)} MB: too large.`;
  event.preventDefault();
  event.stopImmediatePropagation();
  if (event.type === "change") event.target.value = "";
  trigger("refused");
}
document.addEventListener("change", check, true);
document.addEventListener("drop", check, true);
"""


def limit_note(file: str, settings: Settings, otherwise: str) -> gr.HTML:
    """Return a note with a file input's limit; a too large file triggers its ``refused`` event.

    Args:
        file: The id of the file input in the page.
        otherwise: A sentence that says what to do with a larger file.
    """
    words = f"At most {wording.size(settings.max_request_bytes)} fit through the page. {otherwise}"
    rule = {"file": file, "limit": settings.max_request_bytes - _WRAPPING}
    return gr.HTML(
        Markup(
            '<p class="fv-lead" data-limit="{}">{}</p><p class="fv-doubt" role="alert"></p>'
        ).format(json.dumps(rule), words),
        js_on_load=_SCRIPT,
        apply_default_css=False,
        elem_id=f"{file}-limit",
    )
