"""Navigation between tabs: from a face to a person, from a person to the enroll form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app.service import FaceService
from app.settings import Settings
from app.ui.cards.markup import live
from app.ui.tabs.enroll import EnrollTab
from app.ui.tabs.gallery import STEP, GalleryTab
from app.ui.tabs.search import SearchTab
from app.ui.widgets.actions import told
from app.ui.widgets.common import QUIET, acting, explain
from app.ui.widgets.photo_picker import picker_value, read_uploads

TABS = ("verify", "enroll", "search", "gallery", "model")


@dataclass(frozen=True, eq=False)
class Navigation:
    """Handles the buttons that lead from one tab to another.

    Attributes:
        enroll: Receives a face, or a person to add photos to.
        search: Provides faces.
        gallery: Shows a person.
    """

    service: FaceService
    settings: Settings
    tabs: gr.Tabs
    enroll: EnrollTab
    search: SearchTab
    gallery: GalleryTab

    def bind(self, page: gr.Blocks) -> None:
        """Attach the event handlers of the tabs and of the page's URL."""
        outputs = [self.tabs, *self.enroll.form, *self.gallery.outputs]
        quiet = {"show_progress": "hidden", **QUIET}
        self.search.result.act(self.follow, self.search.photo, outputs, **quiet)
        self.enroll.result.act(self.follow, self.enroll.photos, outputs, **quiet)
        self.gallery.details.act(self.add_photos, self.gallery.person, outputs, **quiet)
        page.load(self.arrive, None, self.tabs, **quiet)

    def arrive(self, request: gr.Request) -> Any:
        """Handle the opening of the page: ``/?tab=search`` and ``/?person=ID`` select a tab."""
        asked = dict(request.query_params or {})
        place = "gallery" if "person" in asked else asked.get("tab", "verify")
        return gr.update(selected=place if place in TABS else "verify")

    def follow(self, value: str, event: gr.EventData, request: gr.Request) -> dict[Any, Any]:
        """Handle a button in a result: open a person, or take a face to the Enroll tab."""
        asked = told(event)
        try:
            mine = acting(self.service, request)
            if asked["act"] == "open":
                shown = self.gallery.show("", STEP, asked["person"], request)
                return {self.tabs: gr.update(selected="gallery"), **shown}
            if asked["act"] in ("enroll", "add") and "photo" in asked:
                photo = read_uploads(value, self.settings)[int(asked["photo"])]
                taken = picker_value([replace(photo, face=int(asked["face"]))])
                filled = self.enroll.emptied() | {self.enroll.photos: taken}
                if asked["act"] == "add":
                    filled |= self.enroll.prepare(mine, asked["person"])
                return {self.tabs: gr.update(selected="enroll"), **filled}
        except Exception as error:
            return {self.enroll.result: live(explain(error))}
        return {self.tabs: gr.update()}

    def add_photos(
        self, person: str | None, event: gr.EventData, request: gr.Request
    ) -> dict[Any, Any]:
        """Add photos to the person shown on the Gallery tab."""
        if told(event).get("act") != "add" or not person:
            return {self.tabs: gr.update()}
        try:
            filled = self.enroll.emptied() | self.enroll.prepare(
                acting(self.service, request), person
            )
        except Exception as error:
            return {self.gallery.notice: live(explain(error))}
        return {self.tabs: gr.update(selected="enroll"), **filled}
