"""The page's colours, fonts and HTML head; nothing is loaded from other servers."""

from __future__ import annotations

from pathlib import Path

import gradio as gr

TITLE = "Face verification"
STATIC = Path(__file__).with_name("static")
_STYLE = (STATIC / "style.css").read_text(encoding="utf-8")
_SCRIPT = (STATIC / "stream.js").read_text(encoding="utf-8")

_SANS = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "Helvetica Neue", "sans-serif"]
_MONO = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "monospace"]

# In the HTML head, because Gradio rewrites the selectors in its ``css`` argument.
HEAD = (
    '<meta name="color-scheme" content="light dark">'
    f"<style>{_STYLE}</style><script>{_SCRIPT}</script>"
)


def theme() -> gr.themes.Base:
    return gr.themes.Base(
        primary_hue=gr.themes.colors.indigo,
        neutral_hue=gr.themes.colors.slate,
        radius_size=gr.themes.sizes.radius_lg,
        text_size=gr.themes.sizes.text_md,
        font=[gr.themes.Font(name) for name in _SANS],
        font_mono=[gr.themes.Font(name) for name in _MONO],
    ).set(
        body_background_fill="#fbfcfe",
        body_background_fill_dark="#0d1320",
        body_text_color="#1a2233",
        body_text_color_dark="#eef1f8",
        body_text_color_subdued="#55607a",
        body_text_color_subdued_dark="#aab4c9",
        block_background_fill="#ffffff",
        block_background_fill_dark="#182030",
        block_label_text_color="#1a2233",
        block_label_text_color_dark="#eef1f8",
        block_title_text_color="#1a2233",
        block_title_text_color_dark="#eef1f8",
        block_info_text_color="#55607a",
        block_info_text_color_dark="#aab4c9",
        block_border_color="#d5dbe7",
        block_border_color_dark="#38435a",
        input_border_width="1px",
        input_background_fill="#ffffff",
        input_background_fill_dark="#111827",
        input_border_color="#b9c2d3",
        input_border_color_dark="#4a566f",
        input_placeholder_color="#64708a",
        input_placeholder_color_dark="#98a3ba",
        button_primary_background_fill="#3447c9",
        button_primary_background_fill_dark="#4a5ce0",
        button_primary_background_fill_hover="#2a3ab0",
        button_primary_background_fill_hover_dark="#5b6bea",
        button_primary_text_color="#ffffff",
        button_primary_text_color_dark="#ffffff",
        button_secondary_background_fill="#ffffff",
        button_secondary_background_fill_dark="#182030",
        button_secondary_border_color="#b9c2d3",
        button_secondary_border_color_dark="#4a566f",
        button_cancel_background_fill="#b3201f",
        button_cancel_background_fill_dark="#b3201f",
        button_cancel_text_color="#ffffff",
        button_cancel_text_color_dark="#ffffff",
    )
