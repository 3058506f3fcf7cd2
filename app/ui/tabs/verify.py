"""The Verify tab: compare two photos; shows the verdict, its error rate and the evidence."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from app import samples
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import evidence, markup
from app.ui.cards import report as reports
from app.ui.cards import verdict as verdict_cards
from app.ui.cards.curves import curves_of
from app.ui.cards.markup import live, placeholder
from app.ui.downloads import Downloads
from app.ui.tabs.pairs import PairsPart
from app.ui.widgets.actions import action_area, plain, told
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.common import QUIET, acting, at_once, at_work, explain, sample_strip, to_sight
from app.ui.widgets.photo_picker import photo_picker, picker_value, read_uploads
from app.usecases.results import ChoiceNeeded, Compared, Verification
from model import wording

_WAITING = "Give two photos and press Compare. The answer appears here."

Faces = tuple[int | None, int | None]
"""The chosen face of each photo; None if not chosen."""


class VerifyTab:
    def __init__(self, service: FaceService, settings: Settings, downloads: Downloads) -> None:
        self.service, self.settings, self.downloads = service, settings, downloads
        self.jobs = SessionJobs()
        self._build()
        self._bind()

    def _build(self) -> None:
        settings = self.settings
        self.strip = sample_strip(samples.pairs(), "No photos at hand? Try:")
        with gr.Row(elem_classes="fv-two"):
            self.first = photo_picker("First photo", settings, elem_id="verify-first")
            self.second = photo_picker("Second photo", settings, elem_id="verify-second")
        with gr.Row(equal_height=False, elem_classes="fv-controls"):
            self.target = gr.Dropdown(
                wording.target_choices(settings.target_fmr),
                value=settings.target_fmr,
                label="How many strangers may pass for the same person?",
                elem_id="verify-target",
                filterable=False,
                scale=3,
            )
            self.prior = gr.Dropdown(
                wording.prior_choices(),
                value=0.0,
                label="How likely was a match beforehand?",
                elem_id="verify-prior",
                filterable=False,
                scale=2,
            )
            self.button = gr.Button("Compare", variant="primary", elem_id="verify-run", scale=1)
        self.result = action_area("verify-result", live(placeholder(_WAITING)), min_height=160)
        self.faces = gr.State((None, None))
        self.crops = gr.State(None, time_to_live=900)
        self.stop = gr.Button("Stop", visible=False, min_width=140, elem_id="verify-stop")
        self.regions = plain("verify-regions")
        self.offered = action_area("verify-offer")
        PairsPart(self.service, settings, self.downloads, self.target)

    def _bind(self) -> None:
        photos = [self.first, self.second]
        fields = [*photos, self.target, self.prior]
        outputs = [self.result, self.faces, self.crops, self.regions, self.offered]
        shown = {"show_progress_on": self.result, **at_work(self.settings)}
        pressed = self.button.click(self.run_fresh, fields, outputs, **shown)
        sample = self.strip.click(
            self.run_sample, [self.target, self.prior], [*photos, *outputs], **shown
        )
        changed = gr.on(
            [self.target.input, self.prior.input], self.run, [*fields, self.faces], outputs,
            **shown,
        )  # fmt: skip
        answers = [pressed, sample, changed]
        for asked in (pressed, sample):
            asked.then(**to_sight("verify-result"))
        acted = self.result.act(
            self.act, [*fields, self.faces, self.crops], [*outputs, self.stop],
            show_progress="hidden", **at_work(self.settings),
        )  # fmt: skip
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)
        hidden = gr.update(visible=False)
        for picker in photos:
            picker.picked(
                inputs=None,
                outputs=[self.result, self.faces, self.regions, self.stop, self.offered],
                cancels=[*answers, acted],
                **at_once(live(placeholder(_WAITING)), [None, None], "", hidden, ""),
            )

    def run(
        self, value_a: str, value_b: str, rate: float, before: float, faces: Faces,
        request: gr.Request,
    ) -> dict[Any, Any]:  # fmt: skip
        """Compare the photos, with the faces chosen so far."""
        answer = {self.crops: None, self.regions: "", self.faces: tuple(faces), self.offered: ""}
        if not value_a or not value_b:
            return answer | {self.result: live(placeholder(_WAITING))}
        try:
            found = self._verify(value_a, value_b, rate, before, faces, request)
            if isinstance(found, ChoiceNeeded):
                return answer | {self.result: live(verdict_cards.choice_card(found))}
            card = verdict_cards.verdict_card(found, curves_of(self.service.calibration()))
        except Exception as error:
            return answer | {self.result: live(explain(error))}
        return answer | {
            self.result: live(card),
            self.crops: (found.face_a.crop, found.face_b.crop),
        }

    def _verify(
        self, value_a: str, value_b: str, rate: float, before: float, faces: Faces,
        request: gr.Request,
    ) -> Verification:  # fmt: skip
        (first, *_), (second, *_) = (
            read_uploads(value, self.settings) for value in (value_a, value_b)
        )
        return acting(self.service, request).verify(
            first.data, second.data, target_fmr=rate, prior=before or None,
            face_a=faces[0], face_b=faces[1],
        )  # fmt: skip

    def run_fresh(
        self, value_a: str, value_b: str, rate: float, before: float, request: gr.Request
    ) -> dict[Any, Any]:
        """Handle Compare: no face is chosen yet."""
        answer = self.run(value_a, value_b, rate, before, (None, None), request)
        if missing := _missing(value_a, value_b):
            answer[self.result] = live(markup.message("warning", missing))
        return answer

    def run_sample(
        self, rate: float, before: float, event: gr.EventData, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        """Show the sample photos at once, then the result, in one call."""
        chosen = samples.pairs()[int(event.place)]
        first, second = (picker_value([photo]) for photo in chosen.photos)
        yield {self.first: first, self.second: second}
        yield self.run_fresh(first, second, rate, before, request)

    def act(
        self, value_a: str, value_b: str, rate: float, before: float, faces: Faces, crops: Any,
        event: gr.EventData, request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:  # fmt: skip
        """Handle a button in the result: a face, the occlusion map, or the report."""
        asked = told(event)
        if asked["act"] == "choose":
            faces = _chosen(faces, int(asked["side"]), int(asked["face"]))
            yield self.run(value_a, value_b, rate, before, faces, request)
        elif asked["act"] == "regions":
            yield from self.show_regions(crops, request)
        elif asked["act"] == "report":
            try:
                found = self._verify(value_a, value_b, rate, before, faces, request)
                yield {self.offered: self.report(found, asked.get("note", ""), request)}
            except Exception as error:
                yield {self.offered: live(explain(error))}

    def report(self, found: Verification, note: str, request: gr.Request) -> str:
        """Offer a verdict as a self-contained HTML file."""
        assert isinstance(found, Compared)
        made = reports.verification(found, acting(self.service, request), note=note)
        return reports.offer(self.downloads, "face-report.html", made, request.username)

    def show_regions(self, pair: Any, request: gr.Request) -> Iterator[dict[Any, Any]]:
        """Compute the occlusion map, with progress."""
        if pair is None:
            yield {self.regions: live(placeholder("Compare two photos first."))}
            return
        crop_a, crop_b = pair
        try:
            mine = acting(self.service, request)
            with self.jobs.work(request.session_hash) as stopping:
                yield {
                    self.regions: markup.progress_bar("Starting", 0, 0),
                    self.stop: gr.update(visible=True),
                }
                for step in steps(partial(mine.occlusion_map, crop_a, crop_b, cancel=stopping)):
                    if isinstance(step, tuple):
                        yield {self.regions: markup.progress_bar(*step)}
                    else:
                        shown = evidence.card(crop_a, crop_b, step)
        except Exception as error:
            shown = explain(error)
        yield {self.regions: live(shown), self.stop: gr.update(visible=False)}

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)


def _chosen(faces: Faces, side: int, number: int) -> Faces:
    return (number, faces[1]) if side == 0 else (faces[0], number)


def _missing(value_a: str, value_b: str) -> str:
    """Say which photos are missing; empty if both are there."""
    if not value_a and not value_b:
        return "Both photos are missing. Give two photos, then press Compare."
    if value_a and value_b:
        return ""
    which = "second" if value_a else "first"
    return f"The {which} photo is missing. Give it, then press Compare."
