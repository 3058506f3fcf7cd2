"""Verify: two photos, one answer with its error rate, and what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr

from app import samples, text
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import evidence, markup
from app.ui.cards import verdict as verdict_cards
from app.ui.cards.curves import curves_of
from app.ui.cards.model import progress_bar
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.common import (
    QUIET,
    acting,
    at_once,
    at_work,
    explain,
    live,
    placeholder,
    sample_strip,
)
from app.ui.widgets.photo_picker import photo_picker, picker_value, read_uploads
from app.usecases.results import Photo

_WAITING = "Give two photos and press Compare. The answer appears here."


def tab(service: FaceService, settings: Settings) -> None:
    """Build the tab."""
    stops = SessionJobs()
    strip = sample_strip(samples.pairs(), "No photos at hand? Try:")
    with gr.Row():
        first = photo_picker("First photo", settings, elem_id="verify-first")
        second = photo_picker("Second photo", settings, elem_id="verify-second")
    with gr.Row(equal_height=False, elem_classes="fv-controls"):
        target = gr.Dropdown(
            text.target_choices(settings.target_fmr),
            value=settings.target_fmr,
            label="How many strangers may pass for the same person?",
            elem_id="verify-target",
            filterable=False,
            scale=3,
        )
        prior = gr.Dropdown(
            text.prior_choices(),
            value=0.0,
            label="How likely was a match beforehand?",
            elem_id="verify-prior",
            filterable=False,
            scale=2,
        )
        button = gr.Button("Compare", variant="primary", elem_id="verify-run", scale=1)
    with gr.Row():
        face_a = gr.Radio(label="Face in the first photo", visible=False, elem_id="verify-face-a")
        face_b = gr.Radio(label="Face in the second photo", visible=False, elem_id="verify-face-b")
    result = gr.HTML(
        live(placeholder(_WAITING)), apply_default_css=False, elem_id="verify-result",
        min_height=160, js_on_load=None,
    )  # fmt: skip
    crops = gr.State(None, time_to_live=900)
    with gr.Row():
        why = gr.Button("Show what the score rests on", visible=False, elem_id="verify-why")
        stop = gr.Button("Stop", visible=False, scale=0, min_width=140, elem_id="verify-stop")
    regions = gr.HTML("", apply_default_css=False, elem_id="verify-regions", js_on_load=None)

    def run(
        value_a: str, value_b: str, rate: float, before: float,
        number_a: int | None, number_b: int | None, request: gr.Request,
    ) -> dict[Any, Any]:  # fmt: skip
        hidden = gr.update(visible=False)
        answer = {crops: None, why: hidden, regions: ""}
        try:
            photos = [read_uploads(value, settings) for value in (value_a, value_b)]
            if not all(photos):
                waiting = live(placeholder(_WAITING))
                return answer | {result: waiting, face_a: hidden, face_b: hidden}
            found = acting(service, request).verify(
                photos[0][0].data, photos[1][0].data,
                target_fmr=rate, prior=before or None, face_a=number_a, face_b=number_b,
            )  # fmt: skip
            answer |= {
                face_a: _choice(found.photo_a, number_a), face_b: _choice(found.photo_b, number_b)
            }  # fmt: skip
            if found.verdict is None:
                return answer | {result: live(verdict_cards.choice_card(found))}
            pair = (found.photo_a.faces[found.face_a - 1], found.photo_b.faces[found.face_b - 1])
            card = verdict_cards.verdict_card(found, curves_of(service.calibration()))
        except Exception as error:
            return answer | {result: live(explain(error)), face_a: hidden, face_b: hidden}
        return answer | {
            result: live(card),
            crops: (pair[0].crop, pair[1].crop),
            why: gr.update(visible=True),
        }

    def run_fresh(
        value_a: str, value_b: str, rate: float, before: float, request: gr.Request
    ) -> dict[Any, Any]:
        answer = run(value_a, value_b, rate, before, None, None, request)
        if missing := _missing(value_a, value_b):
            answer[result] = live(markup.message("warning", missing))
        return answer

    def run_sample(
        rate: float, before: float, event: gr.EventData, request: gr.Request
    ) -> Iterator[dict]:
        """Show the photos at once and the answer when it is there, both from one call."""
        chosen = samples.pairs()[int(event.place)]
        values = [picker_value([photo]) for photo in chosen.photos]
        yield dict(zip(photos, values, strict=True))
        yield run_fresh(*values, rate, before, request)

    def show_regions(pair: Any, request: gr.Request) -> Iterator[dict[Any, Any]]:
        if pair is None:
            yield {regions: live(placeholder("Compare two photos first."))}
            return
        try:
            mine = acting(service, request)
            with stops.work(request.session_hash) as stopping:
                yield {regions: progress_bar("Starting", 0, 0), stop: gr.update(visible=True)}
                for step in steps(partial(mine.occlusion_map, *pair, cancel=stopping)):
                    if isinstance(step, tuple):
                        yield {regions: progress_bar(*step)}
                    else:
                        shown = evidence.card(*pair, step)
        except Exception as error:
            shown = explain(error)
        yield {regions: live(shown), stop: gr.update(visible=False)}

    def call_off(request: gr.Request) -> None:
        stops.stop(request.session_hash)

    photos = [first, second]
    outputs = [result, face_a, face_b, crops, why, regions]
    shown = {"show_progress_on": result, **at_work(settings)}
    answers = [
        button.click(run_fresh, [*photos, target, prior], outputs, **shown),
        gr.on(
            [target.input, prior.input, face_a.input, face_b.input],
            run, [*photos, target, prior, face_a, face_b], outputs, **shown,
        ),
        strip.click(run_sample, [target, prior], [*photos, *outputs], **shown),
    ]  # fmt: skip
    mapping = why.click(
        show_regions, crops, [regions, stop], show_progress="hidden", **at_work(settings)
    )
    stop.click(call_off, None, None, queue=False, **QUIET)
    hidden = gr.update(visible=False)
    unchosen = gr.update(visible=False, value=None)
    for picker in photos:
        picker.picked(
            inputs=None,
            outputs=[result, face_a, face_b, why, regions, stop],
            cancels=[*answers, mapping],
            **at_once(live(placeholder(_WAITING)), unchosen, unchosen, hidden, "", hidden),
        )


def _missing(value_a: str, value_b: str) -> str:
    """What must be given before anything can be compared; empty when all is there."""
    if not value_a and not value_b:
        return "Both photos are missing. Give two photos, then press Compare."
    if value_a and value_b:
        return ""
    which = "second" if value_a else "first"
    return f"The {which} photo is missing. Give it, then press Compare."


def _choice(photo: Photo, number: int | None) -> Any:
    if len(photo.faces) < 2:
        return gr.update(visible=False, value=None)
    choices = [(f"Face {face.number}", face.number) for face in photo.faces]
    return gr.update(visible=True, choices=choices, value=number)
