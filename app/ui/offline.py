"""Gradio fetches what a request names by address. This program fetches nothing."""

from __future__ import annotations

from typing import NoReturn

import gradio as gr
from gradio import processing_utils


async def refuse(url: str, cache_dir: str) -> NoReturn:
    """Stands where Gradio would download."""
    raise gr.Error("Addresses are not read. Choose the file itself.")


def stay_offline() -> None:
    """From now on no component fetches a file, whoever asks for it."""
    # Every way to a download in Gradio, at once or later, ends in this one function.
    processing_utils.async_ssrf_protected_download = refuse
