"""A live camera whose faces are searched for, one picture after another."""

from __future__ import annotations

import gradio as gr

from app.ui.cards import markup
from app.ui.theme import STATIC

_SCRIPT = (STATIC / "live.js").read_text(encoding="utf-8")


def live_camera(target: float, elem_id: str) -> gr.HTML:
    """Return the camera; its value is the target of the searches."""
    return gr.HTML(
        value=str(target),
        html_template=str(markup.render("live.html")),
        js_on_load=_SCRIPT,
        apply_default_css=False,
        elem_id=elem_id,
    )
