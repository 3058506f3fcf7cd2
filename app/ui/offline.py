"""What Gradio would do with what people give it, and this program does not: fetch and keep."""

from __future__ import annotations

from typing import Any, NoReturn

import gradio as gr
from gradio import processing_utils
from gradio.state_holder import SessionState


async def refuse(url: str, cache_dir: str) -> NoReturn:
    """Stands where Gradio would download."""
    raise gr.Error("Addresses are not read. Choose the file itself.")


def stay_offline() -> None:
    """From now on no component fetches a file, whoever asks for it."""
    # Every way to a download in Gradio, at once or later, ends in this one function.
    processing_utils.async_ssrf_protected_download = refuse


def _let_go(state: SessionState, key: int, value: Any) -> None:
    """Stands where Gradio would keep the value of a component."""


def keep_nothing() -> None:
    """From now on no session keeps what its events take in and give back, photos among it."""
    # Gradio keeps these values for its links to a page as it stands, which are closed here.
    SessionState._update_value_in_config = _let_go
