"""The Enroll tab: a name, a consent note and photos; shows each photo's result and choices."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import gradio as gr

from app import samples
from app.service import FaceService
from app.settings import Settings
from app.ui.cards import enrollment as cards
from app.ui.cards.markup import live, placeholder
from app.ui.widgets import namesakes
from app.ui.widgets.actions import action_area, told
from app.ui.widgets.background import SessionJobs
from app.ui.widgets.common import QUIET, acting, at_once, at_work, explain, sample_strip, to_sight
from app.ui.widgets.enrolling import Enrolling, decisions
from app.ui.widgets.namesakes import Namesakes
from app.ui.widgets.photo_picker import digest, photo_picker, picker_value, read_uploads
from app.usecases.results import Upload
from model.errors import FaceError

_WAITING = "Give a name and photos, then press Enroll. Each photo's result appears here."

_UNCERTAIN = "The photo it went wrong with may be stored as well; the Gallery tab shows what is."

Answer = dict[Any, Any]


class EnrollTab:
    def __init__(self, service: FaceService, settings: Settings) -> None:
        self.service, self.settings = service, settings
        self.jobs = SessionJobs()
        self._build()
        self._bind()

    def _build(self) -> None:
        self.strip = sample_strip(samples.singles()[:2], "No photos at hand? Try:")
        with gr.Row():
            with gr.Column():
                self.name = gr.Textbox("", label="Name", max_length=200, elem_id="enroll-name")
                self.consent = gr.Textbox(
                    "",
                    label="Consent",
                    info="How and when the person agreed, for your records.",
                    placeholder="Signed form of 3 May 2026",
                    max_length=500,
                    elem_id="enroll-consent",
                )
                self.same_name = Namesakes.build()
            self.photos = photo_picker(
                "Photos of this person", self.settings, several=True, elem_id="enroll-photos"
            )
        with gr.Row(elem_classes="fv-controls"):
            self.button = gr.Button("Enroll", variant="primary", elem_id="enroll-run")
            self.stop = gr.Button(
                "Stop", visible=False, scale=0, min_width=140, elem_id="enroll-stop"
            )
        self.result = action_area("enroll-result", live(placeholder(_WAITING)), min_height=120)
        self.session = gr.State(None, time_to_live=900)

    @property
    def form(self) -> list[Any]:
        """The components that a finished enrollment clears and another tab may fill."""
        return [self.name, self.consent, self.photos, self.result, *self.same_name.outputs]

    def _bind(self) -> None:
        outputs = [*self.form, self.session, self.stop]
        shown = {"show_progress": "minimal", "show_progress_on": self.result,
                 **at_work(self.settings)}  # fmt: skip
        quiet = {"show_progress": "hidden", **QUIET}
        looked_up = self.name.blur(
            self.look_up, self.name, [self.result, *self.same_name.outputs], **quiet
        )
        fields = [self.name, self.consent, self.photos, self.same_name.meant]
        # Cancel the name look-up: a late answer would ask who is meant after enrollment is done.
        gr.on(
            [self.button.click, self.name.submit], self.run, fields, outputs,
            cancels=[looked_up], **shown,
        ).then(**to_sight("enroll-result"))  # fmt: skip
        self.result.act(self.act, [self.photos, self.session], outputs, **shown)
        self.strip.click(self.fill, None, self.form, **quiet)
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)
        waiting = live(placeholder(_WAITING))
        for changed in (self.photos.picked, self.same_name.meant.input):
            changed(inputs=None, outputs=[self.result, self.session], **at_once(waiting, None))
        hidden, unchosen = gr.update(visible=False), gr.update(value=None)
        # Photos that await a decision about one person must not go to the next person.
        self.name.input(
            inputs=self.photos,
            outputs=[self.photos, self.result, self.session, self.same_name.group,
                     self.same_name.meant],
            **at_once(
                waiting, None, hidden, unchosen,
                first="document.querySelector('#enroll-result .fv-decide') ? '' : given",
            ),
        )  # fmt: skip

    def run(
        self, who: str, note: str, value: str, meant: str | None, request: gr.Request
    ) -> Iterator[Answer]:
        """Handle Enroll: store one photo after another."""
        try:
            uploads = read_uploads(value, self.settings)
            if not who.strip():
                raise FaceError("The name is empty. Give the person's name first.")
            if not uploads:
                raise FaceError("There are no photos yet. Add at least one photo of this person.")
            mine = acting(self.service, request)
            people = mine.named(who.strip())
            if namesakes.open_question(people, meant):
                question = FaceError(
                    f"The name {who.strip()} is in the gallery already. Choose under the name who "
                    "it is, then press Enroll again."
                )
                shown = self.same_name.show(mine, who.strip(), people)
                yield self._failed(question) | shown
                return
            new = meant == namesakes.NEW and bool(people)
            session = Enrolling(
                who.strip(), note, len(uploads), new_person=new,
                person_id=meant if people and not new else None,
            )  # fmt: skip
            yield from self._store_all(mine, session, uploads, request)
        except Exception as error:
            yield self._failed(error)

    def _store_all(
        self, mine: FaceService, session: Enrolling, uploads: list[Upload], request: gr.Request
    ) -> Iterator[Answer]:
        """Store photos one at a time, so the user can stop; those stored before an error stay."""
        try:
            with self.jobs.work(request.session_hash) as stopping:
                for upload in uploads:
                    if stopping.is_set():
                        break
                    card = cards.enrollment_card(session.outcome())
                    yield {self.result: live(card), self.stop: gr.update(visible=True)}
                    session = session.stored(mine, upload)
                stopped = stopping.is_set()
            answer = self._settled(mine, replace(session, stopped=stopped), uploads)
        except Exception as error:
            answer = self._failed(error, session)
        yield answer

    def _settled(self, mine: FaceService, session: Enrolling, uploads: list[Upload]) -> Answer:
        """Show the result; the form keeps photos that await a decision, or is cleared."""
        waiting = decisions(mine, session, uploads)
        card = cards.enrollment_card(session.outcome(mine, waiting))
        answer = {
            self.result: live(card),
            self.session: session,
            self.stop: gr.update(visible=False),
            **self.same_name.hidden(),
        }
        if session.stopped:
            return answer
        if waiting:
            kept = {each.photo for each in waiting}
            left = [each for each in uploads if digest(each) in kept]
            return answer | {self.photos: picker_value(left)}
        return answer | {self.name: "", self.consent: "", self.photos: ""}

    def _failed(self, error: Exception, session: Enrolling | None = None) -> Answer:
        card = explain(error)
        if session and session.results:
            broken = replace(session.outcome(), note=_UNCERTAIN, stopped=True)
            card += cards.enrollment_card(broken)
        return {self.result: live(card), self.stop: gr.update(visible=False)}

    def act(
        self, value: str, session: Enrolling | None, event: gr.EventData, request: gr.Request
    ) -> Answer:
        """Handle a button in the result: a decision about one photo, or the next action."""
        asked = told(event)
        try:
            mine = acting(self.service, request)
            if asked["act"] == "another":
                return self.emptied() | {self.session: None}
            if asked["act"] == "more":
                return self.emptied() | self.prepare(mine, asked["person"])
            if asked["act"] == "open":
                return {self.stop: gr.update(visible=False)}
            # Gradio deletes session state after a while.
            if session is None:
                raise FaceError("These results are too old. Press Enroll again.")
            uploads = read_uploads(value, self.settings)
            upload = next((each for each in uploads if digest(each) == asked["photo"]), None)
            if upload is None:
                raise FaceError("The photos have changed since. Press Enroll again.")
            return self._settled(mine, session.decided(mine, upload, asked), uploads)
        except Exception as error:
            return self._failed(error, session)

    def emptied(self) -> Answer:
        """Clear the form."""
        return {
            self.name: "",
            self.consent: "",
            self.photos: "",
            self.result: live(placeholder(_WAITING)),
            **self.same_name.hidden(),
        }

    def prepare(self, mine: FaceService, person_id: str) -> Answer:
        """Fill the form to add photos to an existing person."""
        person = mine.person(person_id)
        shown = self.same_name.show(mine, person.name, mine.named(person.name), person.id)
        return {self.name: person.name, self.result: live(placeholder(_WAITING)), **shown}

    def look_up(self, who: str, request: gr.Request) -> Answer:
        """Handle leaving the name field: show who already has the name."""
        try:
            mine = acting(self.service, request)
            return self.same_name.show(mine, who.strip(), mine.named(who.strip()))
        except Exception as error:
            return {self.result: live(explain(error))}

    def fill(self, event: gr.EventData, request: gr.Request) -> Answer:
        """Handle a click on a sample."""
        chosen = samples.singles()[int(event.place)]
        filled = {
            self.name: chosen.name,
            self.consent: "Sample photo in the public domain",
            self.photos: picker_value(chosen.photos),
            self.result: live(placeholder(_WAITING)),
        }
        return filled | self.same_name.hidden() | self.look_up(chosen.name, request)

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)
