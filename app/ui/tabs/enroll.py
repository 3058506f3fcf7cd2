"""Enroll: a name, a consent note, several photos; what became of each, and what can be done."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import gradio as gr

from app import samples
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import faces as face_cards
from app.ui.cards import people as people_cards
from app.ui.widgets import namesakes
from app.ui.widgets.background import SessionJobs
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
from app.ui.widgets.namesakes import Namesakes
from app.ui.widgets.photo_picker import digest, photo_picker, picker_value, read_uploads
from app.usecases.results import OVERRIDABLE, PhotoResult, Upload
from model.errors import FaceError

_WAITING = "Give a name and photos, then press Enroll. Each photo's result appears here."

_UNCERTAIN = "The photo it went wrong with may be stored as well; the Gallery tab shows what is."

_STORED_FOR = "stored_for"
"""Detail of a result: the id of who is being enrolled. ``person_id`` is of who looks alike."""

_PHOTO = "photo"
"""Detail of a result: the hash of the photo it is about; two shots of a camera share their name."""


@dataclass(frozen=True)
class _Asked:
    """What the form asks for.

    Attributes:
        name: The person's name.
        consent: How the person agreed.
        photos: The photos, in order.
        meant: Who of that name: an id, ``namesakes.NEW``, or None when nobody has it.
    """

    name: str
    consent: str
    photos: list[Upload]
    meant: str | None


def tab(service: FaceService, settings: Settings) -> None:
    """Build the tab."""
    stops = SessionJobs()
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
            same_name = Namesakes.build()
        photos = photo_picker(
            "Photos of this person", settings, several=True, elem_id="enroll-photos"
        )
    with gr.Row(elem_classes="fv-controls"):
        button = gr.Button("Enroll", variant="primary", elem_id="enroll-run")
        stop = gr.Button("Stop", visible=False, scale=0, min_width=140, elem_id="enroll-stop")
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
            info="If they show someone else, choose another name or person above instead.",
            placeholder="Say why, for example: twins; the only photo there is",
            max_length=500,
            elem_id="enroll-reason",
        )
        insist = gr.Button("Store them anyway", elem_id="enroll-insist")
    outputs = [result, results, stop, choice, which, face, override, *same_name.outputs]
    closed = {choice: gr.update(visible=False), override: gr.update(visible=False)}

    def busy(asked: _Asked, done: list[PhotoResult]) -> dict[Any, Any]:
        card = people_cards.enrollment_card(asked.name, done, len(asked.photos))
        return {result: live(card), results: list(done), stop: gr.update(visible=True), **closed}

    def finished(
        mine: FaceService, asked: _Asked, done: list[PhotoResult], *, created: bool, stopped: bool
    ) -> dict[Any, Any]:
        person = _stored_for(done)
        accepted = any(each.status == "accepted" for each in done)
        outcome = people_cards.went_to(mine.person(person), created) if accepted else ""
        card = people_cards.enrollment_card(
            asked.name, done, len(asked.photos), outcome=outcome, stopped=stopped
        )
        answer = {
            result: live(card),
            results: list(done),
            stop: gr.update(visible=False),
            choice: gr.update(visible=False),
            override: gr.update(visible=any(each.can_override for each in done)),
            **same_name.show(mine, asked.name, mine.named(asked.name), person or asked.meant),
        }
        place = _first(done, "several_faces")
        if place is not None:
            answer |= ask_for_face(mine, asked, place)
        return answer

    def ask_for_face(mine: FaceService, asked: _Asked, place: int) -> dict[Any, Any]:
        photo = asked.photos[place]
        seen = mine.detect(photo.data)
        numbers = [(f"Face {each.number}", each.number) for each in seen.faces]
        caption = f"{photo.name}: which face is {asked.name}?"
        return {
            choice: gr.update(visible=True),
            which: f'<div class="fv-card">{face_cards.boxed(caption, seen)}</div>',
            face: gr.update(choices=numbers, value=None, label=caption),
        }

    def store(
        asked: _Asked, done: list[PhotoResult], places: list[int], overrides: dict[str, str],
        request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:  # fmt: skip
        """Enroll the photos at ``places``, one at a time, so that it can be stopped.

        When something goes wrong, what became of the photos before it stays in sight.
        """
        mine = acting(service, request)
        new = asked.meant == namesakes.NEW
        person = _stored_for(done) or (None if new else asked.meant)
        done, created = list(done), False
        try:
            with stops.work(request.session_hash) as stopping:
                for place in places:
                    if stopping.is_set():
                        break
                    yield busy(asked, done)
                    photo = asked.photos[place]
                    stored = mine.enroll(
                        asked.name, [photo], consent=asked.consent, overrides=overrides,
                        person_id=person, new_person=new,
                    )  # fmt: skip
                    person, created = stored.person_id or person, created or stored.created
                    fresh = people_cards.enrollment_done(stored)
                    facts = {_PHOTO: digest(photo)} | ({_STORED_FOR: person} if person else {})
                    fresh = replace(fresh, details={**fresh.details, **facts})
                    done[place : place + 1] = [fresh]
                stopped = stopping.is_set()
            answer = finished(mine, asked, done, created=created, stopped=stopped)
        except Exception as error:
            answer = failed(error, asked, done)
        yield answer

    def same_photos(value: str, done: list[PhotoResult]) -> list[Upload]:
        """The photos ``done`` is about; they may have been changed while it was being made."""
        # Gradio drops them after a while.
        if not done:
            raise FaceError("These results are too old. Press Enroll again.")
        given = read_uploads(value, settings)
        if [*map(digest, given[: len(done)])] != [each.details[_PHOTO] for each in done]:
            raise FaceError("The photos have changed since. Press Enroll again.")
        return given

    def failed(
        error: Exception, asked: _Asked | None = None, done: Sequence[PhotoResult] = ()
    ) -> dict[Any, Any]:
        card = explain(error)
        if asked and done:
            card += people_cards.enrollment_card(
                asked.name, done, len(asked.photos), outcome=_UNCERTAIN, stopped=True
            )
        return {result: live(card), stop: gr.update(visible=False), **closed}

    def run(
        who: str, note: str, value: str, meant: str | None, request: gr.Request
    ) -> Iterator[dict[Any, Any]]:
        try:
            asked = _Asked(who.strip(), note, read_uploads(value, settings), meant)
            if not asked.name:
                raise FaceError("The name is empty. Give the person's name first.")
            if not asked.photos:
                raise FaceError("There are no photos yet. Add at least one photo of this person.")
            mine = acting(service, request)
            people = mine.named(asked.name)
            if namesakes.open_question(people, meant):
                question = FaceError(
                    f"The name {asked.name} is in the gallery already. Choose under the name who "
                    "it is, then press Enroll again."
                )
                yield failed(question) | same_name.show(mine, asked.name, people)
                return
            asked = asked if people else replace(asked, meant=None)
            yield from store(asked, [], list(range(len(asked.photos))), {}, request)
        except Exception as error:
            yield failed(error)

    def run_override(
        who: str, note: str, value: str, meant: str | None, done: list[PhotoResult], why: str,
        request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:  # fmt: skip
        try:
            if not why.strip():
                gr.Warning("Give a reason first.", title="Reason missing")
                # Without any answer Gradio would empty all outputs.
                yield {override: gr.update(visible=True)}
                return
            asked = _Asked(who.strip(), note, same_photos(value, done), meant)
            places = [place for place, each in enumerate(done) if each.can_override]
            overrides = dict.fromkeys(OVERRIDABLE, why.strip())
            yield from store(asked, done, places, overrides, request)
        except Exception as error:
            yield failed(error)

    def run_face(
        who: str, note: str, value: str, meant: str | None, done: list[PhotoResult], number: int,
        request: gr.Request,
    ) -> Iterator[dict[Any, Any]]:  # fmt: skip
        try:
            given = same_photos(value, done)
            place = _first(done, "several_faces")
            if place is None or number is None:
                yield {choice: gr.update(visible=False)}
                return
            given[place] = replace(given[place], face=int(number))
            asked = _Asked(who.strip(), note, given, meant)
            yield from store(asked, done, [place], {}, request)
        except Exception as error:
            yield failed(error)

    def look_up(who: str, request: gr.Request) -> dict[Any, Any]:
        try:
            mine = acting(service, request)
            return same_name.show(mine, who.strip(), mine.named(who.strip()))
        except Exception as error:
            return {result: live(explain(error))}

    waiting = live(placeholder(_WAITING))

    def fill(event: gr.EventData, request: gr.Request) -> dict[Any, Any]:
        chosen = samples.singles()[int(event.place)]
        filled = {
            name: chosen.name,
            consent: "Sample photo in the public domain",
            photos: picker_value(chosen.photos),
            result: waiting,
        }
        return filled | closed | same_name.hidden() | look_up(chosen.name, request)

    fields = [name, consent, photos, same_name.meant]
    shown = {"show_progress": "minimal", "show_progress_on": result, **at_work(settings)}
    gr.on([button.click, name.submit], run, fields, outputs, **shown)
    insist.click(run_override, [*fields, results, reason], outputs, **shown)
    face.input(run_face, [*fields, results, face], outputs, **shown)
    hidden, unchosen = gr.update(visible=False), gr.update(value=None)
    cleared = [result, choice, override]
    for changed in (photos.picked, same_name.meant.input):
        changed(inputs=None, outputs=cleared, **at_once(waiting, hidden, hidden))
    name.input(
        inputs=None, outputs=[*cleared, same_name.group, same_name.meant],
        **at_once(waiting, hidden, hidden, hidden, unchosen),
    )  # fmt: skip
    looked_up = {"show_progress": "hidden", **QUIET}
    name.blur(look_up, name, [result, *same_name.outputs], **looked_up)
    strip.click(fill, None, [name, consent, photos, *cleared, *same_name.outputs], **looked_up)

    def call_off(request: gr.Request) -> None:
        stops.stop(request.session_hash)

    stop.click(call_off, None, None, queue=False, **QUIET)


def _stored_for(done: list[PhotoResult]) -> str | None:
    return next((each.details[_STORED_FOR] for each in done if _STORED_FOR in each.details), None)


def _first(done: list[PhotoResult], status: str) -> int | None:
    return next((place for place, each in enumerate(done) if each.status == status), None)
