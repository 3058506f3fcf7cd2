"""The Search tab: identify the faces in photos among the people enrolled."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gradio as gr
from markupsafe import Markup

from app import samples
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import markup
from app.ui.cards import report as reports
from app.ui.cards import search as cards
from app.ui.cards.markup import live, placeholder
from app.ui.downloads import Downloads
from app.ui.widgets.actions import action_area, told
from app.ui.widgets.background import SessionJobs
from app.ui.widgets.common import QUIET, acting, at_once, at_work, explain, sample_strip, to_sight
from app.ui.widgets.live_camera import live_camera
from app.ui.widgets.photo_picker import photo_picker, picker_value, read_uploads
from app.usecases.results import Search
from model import wording
from model.errors import FaceError

_WAITING = "Give one or more photos and press Search. Every face in them is looked for."
_TARGETS = (1e-1, 1e-2, 1e-3, 1e-4)


class SearchTab:
    def __init__(self, service: FaceService, settings: Settings, downloads: Downloads) -> None:
        self.service, self.settings, self.downloads = service, settings, downloads
        self.jobs = SessionJobs()
        self.strip = sample_strip(samples.singles(), "No photo at hand? Try:")
        self.photo = photo_picker(
            "Photos to search for", settings, several=True, elem_id="search-photo"
        )
        with gr.Row(elem_classes="fv-controls"):
            self.target = gr.Dropdown(
                wording.target_choices(settings.target_fpir, _TARGETS),
                value=settings.target_fpir,
                label="How many strangers may be taken for someone enrolled?",
                elem_id="search-target",
                filterable=False,
                scale=2,
            )
            self.button = gr.Button("Search", variant="primary", elem_id="search-run", scale=1)
            self.stop = gr.Button("Stop", visible=False, scale=0, min_width=140,
                                  elem_id="search-stop")  # fmt: skip
        self.camera = live_camera(settings.target_fpir, elem_id="search-live")
        self.result = action_area("search-result", live(placeholder(_WAITING)), min_height=160)
        self.offered = action_area("search-offer")
        self._bind()

    def _bind(self) -> None:
        outputs = [self.result, self.stop, self.offered]
        shown = {"show_progress_on": self.result, **at_work(self.settings)}
        fields = [self.photo, self.target]
        pressed = self.button.click(self.run_pressed, fields, outputs, **shown)
        sample = self.strip.click(self.run_sample, self.target, [self.photo, *outputs], **shown)
        answers = [pressed, sample, self.target.input(self.run, fields, outputs, **shown)]
        for asked in (pressed, sample):
            asked.then(**to_sight("search-result"))
        self.result.act(self.act, fields, self.offered, show_progress="hidden",
                        **at_work(self.settings))  # fmt: skip
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)
        self.target.input(None, self.target, self.camera, js="(target) => `${target}`", **QUIET)
        self.photo.picked(
            inputs=None, outputs=[*outputs], cancels=answers,
            **at_once(live(placeholder(_WAITING)), gr.update(visible=False), ""),
        )  # fmt: skip

    def run(self, value: str, rate: float, request: gr.Request) -> Iterator[dict[Any, Any]]:
        """Search for every face in every photo; the user can stop between photos."""
        hidden = {self.stop: gr.update(visible=False), self.offered: ""}
        try:
            uploads = read_uploads(value, self.settings)
            if not uploads:
                yield hidden | {self.result: live(placeholder(_WAITING))}
                return
            mine = acting(self.service, request)
            if len(uploads) == 1:
                found = mine.search(uploads[0].data, target_fpir=rate)
                yield hidden | {self.result: live(cards.search_card(found))}
                return
            done: list[tuple[str, Search | str]] = []
            with self.jobs.work(request.session_hash) as stopping:
                for upload in uploads:
                    if stopping.is_set():
                        break
                    bar = markup.progress_bar("Looking at the photos", len(done), len(uploads))
                    yield {self.result: bar, self.stop: gr.update(visible=True)}
                    try:
                        found = mine.search(upload.data, target_fpir=rate)
                    except FaceError as error:
                        found = error.message
                    done.append((upload.name, found))
            yield hidden | {self.result: live(_all(done))}
        except Exception as error:
            yield hidden | {self.result: live(explain(error))}

    def run_pressed(self, value: str, rate: float, request: gr.Request) -> Iterator[dict[Any, Any]]:
        """Handle Search."""
        if not value:
            missing = "The photo is missing. Give one, then press Search."
            yield {self.result: live(markup.message("warning", missing))}
            return
        yield from self.run(value, rate, request)

    def run_sample(
        self, rate: float, event: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        """Show the sample photo at once, then the result, in one call."""
        value = picker_value(samples.singles()[int(event.place)].photos)
        yield {self.photo: value}
        yield from self.run(value, rate, request)

    def act(self, value: str, rate: float, event: gr.EventData, request: gr.Request) -> str:
        """Handle a button in the result; :mod:`app.ui.navigation` handles those to other tabs."""
        asked = told(event)
        if asked["act"] != "report":
            return ""
        try:
            upload = read_uploads(value, self.settings)[int(asked["photo"])]
            mine = acting(self.service, request)
            found = mine.search(upload.data, target_fpir=rate)
            made = reports.search(found, mine, note=asked.get("note", ""))
            return reports.offer(self.downloads, "face-search.html", made, request.username)
        except Exception as error:
            return live(explain(error))

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)


def _all(done: list[tuple[str, Search | str]]) -> Markup:
    single = [
        cards.search_card(found, photo=place, name=name)
        for place, (name, found) in enumerate(done)
        if not isinstance(found, str)
    ]
    return cards.who_is_where(done) + Markup("").join(single)
