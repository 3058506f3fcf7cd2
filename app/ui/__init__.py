"""The page: Gradio tabs over the service, one file a tab, no logic beyond showing."""

from __future__ import annotations

from app.ui import private_folder  # noqa: F401  (first: it decides where Gradio keeps files)
