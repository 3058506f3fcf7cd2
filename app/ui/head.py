"""The head of the page: what it promises, who is logged in, and what is missing."""

from __future__ import annotations

from typing import Any

import gradio as gr

from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from app.ui.widgets.common import QUIET, acting
from model.errors import FaceError

CALIBRATE = "python -m training calibrate --bundle {bundle} --data PHOTOS"

_LOGOUT = """
element.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-logout]")) return;
  await fetch("logout", { method: "POST" });
  location.reload();
});
"""


class Header:
    """Title, promise, log-out where there is a login, and a warning without a calibration."""

    def __init__(self, page: gr.Blocks, service: FaceService, settings: Settings) -> None:
        self.service, self.settings = service, settings
        self.part = gr.HTML(
            self.markup(None), js_on_load=_LOGOUT, apply_default_css=False, elem_id="page-head"
        )
        page.load(self.show, None, self.part, show_progress="hidden", **QUIET)

    def markup(self, user: str | None) -> str:
        """The head for whoever is logged in."""
        kept = "face vectors" + (" and thumbnails" if self.settings.keep_thumbnails else "")
        return markup.render(
            "head.html",
            kept=kept,
            user=user,
            calibrated=self.service.context.calibration is not None,
            command=CALIBRATE.format(bundle=self.settings.bundle.name),
        )

    def show(self, request: gr.Request) -> str:
        """The page was opened."""
        try:
            name = acting(self.service, request).principal.name
        except FaceError:
            name = None
        return self.markup(name if request.username else None)


def show_by_scope(page: gr.Blocks, service: FaceService, enroll: gr.Tab) -> None:
    """Whoever may not enroll does not see the tab for it."""

    def show(request: gr.Request) -> Any:
        try:
            return gr.update(visible=acting(service, request).allowed("enroll"))
        except FaceError:
            return gr.update(visible=False)

    page.load(show, None, enroll, show_progress="hidden", **QUIET)
