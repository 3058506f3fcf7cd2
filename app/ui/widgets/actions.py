"""HTML areas whose buttons keep working when the content is replaced."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.ui.theme import STATIC

_SCRIPT = (STATIC / "actions.js").read_text(encoding="utf-8")


def action_area(elem_id: str, value: str = "", *, min_height: int | None = None) -> gr.HTML:
    """Return HTML in which a click on ``data-act`` triggers the event ``act``; see :func:`told`."""
    return gr.HTML(
        value, js_on_load=_SCRIPT, apply_default_css=False, elem_id=elem_id, min_height=min_height
    )


def plain(elem_id: str, value: str = "") -> gr.HTML:
    """Return HTML without events."""
    return gr.HTML(value, js_on_load=None, apply_default_css=False, elem_id=elem_id)


def told(event: gr.EventData) -> dict[str, str]:
    """Return the data of a click in an action area: the button's data and nearby form fields."""
    given: Any = event._data
    return {str(name): str(value) for name, value in given.items()} if given else {}
