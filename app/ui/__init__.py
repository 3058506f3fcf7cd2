"""The page: Gradio tabs that call the service, one file per tab, with display logic only."""

from __future__ import annotations

from app.ui import private_folder  # noqa: F401  (first: it decides where Gradio keeps files)
