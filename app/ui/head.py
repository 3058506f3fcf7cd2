"""The page's header: title, login and warnings."""

from __future__ import annotations

import gradio as gr

from app.auth import Principal
from app.context import how_to_calibrate
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from app.ui.widgets.common import QUIET, acting
from model.errors import FaceError

NOBODY = Principal("", "read")
"""Placeholder until the user is known."""

_LOGOUT = """
element.addEventListener("click", async (event) => {
  if (!event.target.closest("[data-logout]")) return;
  await fetch("logout", { method: "POST" });
  location.reload();
});
"""


class Header:
    """Title, tagline, a log-out button if there is a login, and a warning without calibration."""

    def __init__(self, page: gr.Blocks, service: FaceService, settings: Settings) -> None:
        self.service, self.settings = service, settings
        self.part = gr.HTML(
            self.markup(NOBODY), js_on_load=_LOGOUT, apply_default_css=False, elem_id="page-head"
        )
        page.load(self.show, None, self.part, show_progress="hidden", **QUIET)

    def markup(self, who: Principal, user: str | None = None) -> str:
        """Render the header for a principal, whose scope decides which tabs are shown."""
        kept = "face vectors" + (" and thumbnails" if self.settings.keep_thumbnails else "")
        return markup.render(
            "head.html",
            kept=kept,
            user=user,
            scope=who.scope,
            calibrated=self.service.context.calibration is not None,
            command=how_to_calibrate(self.settings.bundle if who.scope == "admin" else "BUNDLE"),
        )

    def show(self, request: gr.Request) -> str:
        """Handle the opening of the page."""
        try:
            who = acting(self.service, request).principal
        except FaceError:
            who = NOBODY
        return self.markup(who, who.name if request.username else None)
