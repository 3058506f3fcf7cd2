"""A part of the page whose content may hold buttons, whatever it is replaced by."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.ui.theme import STATIC

_SCRIPT = (STATIC / "actions.js").read_text(encoding="utf-8")


def action_area(elem_id: str, value: str = "", *, min_height: int | None = None) -> gr.HTML:
    """HTML in which a click on ``data-act`` raises the event ``act``; see :func:`told`."""
    return gr.HTML(
        value, js_on_load=_SCRIPT, apply_default_css=False, elem_id=elem_id, min_height=min_height
    )


def plain(elem_id: str, value: str = "") -> gr.HTML:
    """HTML that is only shown."""
    return gr.HTML(value, js_on_load=None, apply_default_css=False, elem_id=elem_id)


def told(event: gr.EventData) -> dict[str, str]:
    """What a click in an action area carries: the button's data and the fields around it."""
    given: Any = event._data
    return {str(name): str(value) for name, value in given.items()} if given else {}
