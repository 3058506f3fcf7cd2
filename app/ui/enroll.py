"""Enroll: a name, a consent note, several photos; what became of each, and what can be done."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from app import samples
from app.results import OVERRIDABLE, PhotoResult, Upload
from app.service import FaceService
from app.settings import Settings
from app.ui import cards, people_cards
from app.ui.photos import photo_picker, picker_value, read_uploads
from app.ui.shared import QUIET, acting, at_once, explain, live, placeholder, sample_strip
from app.ui.stops import Stops
from model.errors import FaceError

_WAITING = "Give a name and photos, then press Enroll. Each photo's result appears here."

_STORED_FOR = "stored_for"
"""Detail of a result: the id of who is being enrolled. ``person_id`` is of who looks alike."""

_PHOTO = "photo"
"""Detail of a result: the hash of the photo it is about; two shots of a camera share their name."""


def tab(service: FaceService, settings: Settings) -> None:
    """Build the tab."""
    stops = Stops()
    strip = sample_strip(samples.singles()[:2], "No photos at hand? Try:")
    with gr.Row():
        with gr.Column():
            name = gr.Textbox("", label="Name", max_length=200, elem_id="enroll-name")
            consent = gr.Textbox(
                "",
                label="Consent",
                info="How and when the person agreed, for your records.",
                placeholder="Signed form of 3 May 2026",
                max_length=500,
                elem_id="enroll-consent",
            )
        photos = photo_picker(
            "Photos of this person", settings, several=True, elem_id="enroll-photos"
        )
    with gr.Row(elem_classes="fv-controls"):
        button = gr.Button("Enroll", variant="primary", elem_id="enroll-run")
        stop = gr.Button("Stop", visible=False, elem_id="enroll-stop")
    result = gr.HTML(
        live(placeholder(_WAITING)), apply_default_css=False, elem_id="enroll-result",
        min_height=120, js_on_load=None,
    )  # fmt: skip
    results = gr.State([], time_to_live=900)
    with gr.Group(visible=False) as choice:
        which = gr.HTML(apply_default_css=False, js_on_load=None)
        face = gr.Radio(label="Which face is meant?", elem_id="enroll-face")
    with gr.Group(visible=False) as override:
        reason = gr.Textbox(
            "",
            label="Store the refused photos all the same, because",
            placeholder="Say why, for example: twins; the only photo there is",
            max_length=500,
            elem_id="enroll-reason",
        )
        insist = gr.Button("Store them anyway", elem_id="enroll-insist")
    outputs = [result, results, stop, choice, which, face, override]

    def show(
        who: str, done: list[PhotoResult], total: int, uploads: list[Upload], request: gr.Request,
        *, busy: bool = False, stopped: bool = False,
    ) -> dict[Any, Any]:  # fmt: skip
        answer = {
            result: live(people_cards.enrollment_card(who, done, total, stopped=stopped)),
            results: list(done),
            stop: gr.update(visible=busy),
            choice: gr.update(visible=False),
            override: gr.update(visible=not busy and any(each.can_override for each in done)),
        }
        place = _first(done, "several_faces")
        if not busy and place is not None:
            seen = acting(service, request).detect(uploads[place].data)
            numbers = [(f"Face {each.number}", each.number) for each in seen.faces]
            caption = f"{uploads[place].name}: which face is {who}?"
            answer |= {
                choice: gr.update(visible=True),
                which: f'<div class="fv-card">{cards.boxed(caption, seen)}</div>',
                face: gr.update(choices=numbers, value=None, label=caption),
            }
        return answer

    def store(
        who: str, note: str, given: list[Upload], done: list[PhotoResult], places: list[int],
        overrides: dict[str, str], request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:  # fmt: skip
        """Enroll ``given[place]`` for each place, one at a time, so that it can be stopped."""
        own = acting(service, request)
        person = next((each.details[_STORED_FOR] for each in done
                       if _STORED_FOR in each.details), None)  # fmt: skip
        done = list(done)
        with stops.work(request.session_hash) as stopping:
            for place in places:
                if stopping.is_set():
                    break
                yield show(who, done, len(given), given, request, busy=True)
                stored = own.enroll(
                    who, [given[place]], consent=note, overrides=overrides, person_id=person
                )
                person = stored.person_id or person
                fresh = people_cards.enrollment_done(stored)
                facts = {_PHOTO: _digest(given[place])} | ({_STORED_FOR: person} if person else {})
                fresh = replace(fresh, details={**fresh.details, **facts})
                done[place : place + 1] = [fresh]
            stopped = stopping.is_set()
        yield show(who, done, len(given), given, request, stopped=stopped)

    def same_photos(value: str, done: list[PhotoResult]) -> list[Upload]:
        """The photos ``done`` is about; they may have been changed while it was being made."""
        given = read_uploads(value, settings)
        if [*map(_digest, given[: len(done)])] != [each.details[_PHOTO] for each in done]:
            raise FaceError("The photos have changed since. Press Enroll again.")
        return given

    def failed(error: Exception) -> dict[Any, Any]:
        return {result: live(explain(error)), stop: gr.update(visible=False)}

    def run(who: str, note: str, value: str, request: gr.Request) -> Iterator[dict[Any, Any]]:
        try:
            given = read_uploads(value, settings)
            if not who.strip():
                raise FaceError("The name is empty. Give the person's name first.")
            if not given:
                raise FaceError("There are no photos yet. Add at least one photo of this person.")
            yield from store(who.strip(), note, given, [], list(range(len(given))), {}, request)
        except Exception as error:
            yield failed(error)

    def run_override(
        who: str, note: str, value: str, done: list[PhotoResult], why: str, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        try:
            if not why.strip():
                gr.Warning("Give a reason first.", title="Reason missing")
                # Without any answer Gradio would empty all outputs.
                yield {override: gr.update(visible=True)}
                return
            given = same_photos(value, done)
            places = [place for place, each in enumerate(done) if each.can_override]
            overrides = dict.fromkeys(OVERRIDABLE, why.strip())
            yield from store(who.strip(), note, given, done, places, overrides, request)
        except Exception as error:
            yield failed(error)

    def run_face(
        who: str, note: str, value: str, done: list[PhotoResult], number: int, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        try:
            given = same_photos(value, done)
            place = _first(done, "several_faces")
            if place is None or number is None:
                yield {choice: gr.update(visible=False)}
                return
            given[place] = replace(given[place], face=int(number))
            yield from store(who.strip(), note, given, done, [place], {}, request)
        except Exception as error:
            yield failed(error)

    hidden = gr.update(visible=False)
    waiting = live(placeholder(_WAITING))

    def fill(event: gr.EventData) -> tuple[Any, ...]:
        chosen = samples.singles()[int(event.place)]
        note = "Sample photo in the public domain"
        return chosen.name, note, picker_value(chosen.photos), waiting, hidden, hidden

    fields = [name, consent, photos]
    gr.on(
        [button.click, name.submit],
        run,
        fields,
        outputs,
        show_progress="minimal",
        show_progress_on=result,
        **QUIET,
    )
    insist.click(
        run_override,
        [*fields, results, reason],
        outputs,
        show_progress="minimal",
        show_progress_on=result,
        **QUIET,
    )
    face.input(
        run_face,
        [*fields, results, face],
        outputs,
        show_progress="minimal",
        show_progress_on=result,
        **QUIET,
    )
    cleared = [result, choice, override]
    photos.picked(inputs=None, outputs=cleared, **at_once(waiting, hidden, hidden))
    strip.click(fill, None, [*fields, *cleared], show_progress="hidden", **QUIET)

    def call_off(request: gr.Request) -> None:
        stops.stop(request.session_hash)

    stop.click(call_off, None, None, queue=False, **QUIET)


def _first(done: list[PhotoResult], status: str) -> int | None:
    return next((place for place, each in enumerate(done) if each.status == status), None)


def _digest(upload: Upload) -> str:
    return hashlib.sha256(upload.data).hexdigest()
