"""The Gallery tab: a grid of people, one person's details, and actions on them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import gradio as gr
from markupsafe import Markup

from app.service import FaceService
from app.ui.cards import markup
from app.ui.cards import people as cards
from app.ui.cards.markup import live
from app.ui.downloads import Downloads
from app.ui.face_images import address
from app.ui.widgets.actions import action_area, told
from app.ui.widgets.background import SessionJobs, steps
from app.ui.widgets.common import QUIET, acting, explain
from app.ui.widgets.confirmations import STEPS, name_is_taken
from app.ui.widgets.transfer import Transfer
from app.usecases.review import Review
from index.types import Person
from model.errors import FaceError, UnknownPerson

STEP = 120
"""People shown at first; twice as many each time the end of the list scrolls into view."""

MOST_ALIKE = 5
"""Most people suggested as possible duplicates."""

Answer = dict[Any, Any]


class GalleryTab:
    def __init__(
        self, page: gr.Blocks, own: gr.Tab, service: FaceService, downloads: Downloads
    ) -> None:
        self.service = service
        self.jobs = SessionJobs()
        with gr.Row(elem_classes="fv-controls"):
            self.query = gr.Textbox("", label="Find a name", elem_id="gallery-query", scale=3)
            self.review = gr.Button(
                "Find duplicates and odd photos", elem_id="gallery-review", scale=2
            )
            self.stop = gr.Button(
                "Stop", visible=False, scale=0, min_width=140, elem_id="gallery-stop"
            )
        self.notice = action_area("gallery-notice")
        self.details = action_area("gallery-details")
        self.listing = action_area("gallery-list")
        self.shown = gr.State(STEP)
        self.person = gr.State(None)
        self.transfer = Transfer(service, downloads)
        self._bind(page, own)

    @property
    def outputs(self) -> list[Any]:
        return [self.notice, self.details, self.listing, self.shown, self.person,
                self.transfer.part]  # fmt: skip

    def _bind(self, page: gr.Blocks, own: gr.Tab) -> None:
        state = [self.query, self.shown, self.person]
        quiet = {"show_progress": "hidden", **QUIET}
        page.load(self.arrive, None, self.outputs, **quiet)
        own.select(self.show, state, self.outputs, **quiet)
        self.query.change(self.find, self.query, self.outputs, **quiet)
        self.transfer.imported.then(self.show, state, self.outputs, **quiet)
        for part in (self.listing, self.details, self.notice):
            part.act(self.act, state, self.outputs, **quiet)
        self.review.click(self.look_over, None, [self.notice, self.stop], **quiet)
        self.stop.click(self.call_off, None, None, queue=False, **QUIET)

    def arrive(self, request: gr.Request) -> Answer:
        """Handle the opening of the page, perhaps by a link to a person."""
        person = request.query_params.get("person") if request.query_params else None
        return self.show("", STEP, person, request)

    def find(self, words: str, request: gr.Request) -> Answer:
        """Handle typing in the name filter: the list comes back, whoever was open."""
        return self.show(words, STEP, None, request)

    def show(
        self, words: str, shown: int, person: str | None, request: gr.Request
    ) -> Answer:  # fmt: skip
        """Refresh the list and the person shown."""
        return {self.notice: "", **self._refreshed(words, shown, person, request)}

    def _refreshed(
        self, words: str, shown: int, person: str | None, request: gr.Request,
        asked: Markup | str = "",
    ) -> Answer:  # fmt: skip
        try:
            mine = acting(self.service, request)
            who = _known(mine, person)
            return {
                self.listing: "" if who else self._list(mine, (words or "").strip(), shown),
                self.details: self._card(mine, who, asked) if who else "",
                self.shown: shown,
                self.person: who.id if who else None,
                self.transfer.part: gr.update(visible=mine.allowed("admin")),
            }
        except Exception as error:
            return {self.listing: explain(error), self.details: ""}

    def _list(self, mine: FaceService, words: str, shown: int) -> Markup:
        people = mine.people(query=words, limit=shown + 1)
        faces = {each.id: address(each.id) for each in people if each.photos}
        return cards.people_grid(people[:shown], faces, mine.count(), words, len(people) > shown)

    def _card(self, mine: FaceService, who: Person, asked: Markup | str) -> Markup:
        photos = [(each, mine.thumbnail(each.id)) for each in mine.photos(who.id)]
        rights = cards.Rights(mine.allowed("enroll"), mine.allowed("admin"))
        return cards.person_card(who, photos, mine.odd_photos(who.id), rights, asked)

    def act(
        self, words: str, shown: int, person: str | None, event: gr.EventData, request: gr.Request
    ) -> Answer:
        """Handle a button in the list, the person's details or the review."""
        asked = told(event)
        act, _, kind = asked.get("act", "").rpartition("-")
        refreshed = partial(self._refreshed, words, request=request)
        try:
            mine = acting(self.service, request)
            if act == "ask":
                person = asked.get("person", person)
                value = asked.get("other") or asked.get("photo") or ""
                question = STEPS[kind].question(kind, mine, person or "", value)
                return {self.notice: "", **refreshed(shown, person, asked=question)}
            if act == "do":
                person = asked.get("person", person)
                value = asked.get("other") or asked.get("value") or ""
                said, person = STEPS[kind].do(mine, person or "", value)
                return {self.notice: live(said), **refreshed(shown, person)}
            return self._plain_act(mine, asked, shown, person, refreshed)
        except Exception as error:
            return {self.notice: live(explain(error)), **refreshed(shown, person)}

    def _plain_act(
        self, mine: FaceService, asked: dict[str, str], shown: int, person: str | None,
        refreshed: Any,
    ) -> Answer:  # fmt: skip
        """Handle actions that never or only sometimes need a confirmation."""
        act, notice = asked.get("act"), {self.notice: ""}
        if act == "more":
            return notice | refreshed(2 * shown, None)
        if act == "open":
            return notice | refreshed(shown, asked["person"])
        if act == "close":
            return notice | refreshed(shown, None)
        if act == "rename":
            name = asked["name"].strip()
            if name_is_taken(mine, person or "", name):
                question = STEPS["rename"].question("rename", mine, person or "", name)
                return notice | refreshed(shown, person, asked=question)
            said, person = STEPS["rename"].do(mine, person or "", name)
            return {self.notice: live(said), **refreshed(shown, person)}
        if act == "find":
            found = self._perhaps_same(mine, person or "", asked.get("query", ""))
            return notice | refreshed(shown, person, asked=found)
        return notice | refreshed(shown, person)

    def _perhaps_same(self, mine: FaceService, person: str, query: str) -> Markup:
        """Show other entries, found by name or by similarity, each with its verdict."""
        if query.strip():
            named = mine.people(query=query.strip(), limit=MOST_ALIKE + 1)
            others = [each.id for each in named if each.id != person][:MOST_ALIKE]
        else:
            others = mine.most_alike(person, MOST_ALIKE)
        if not others:
            raise FaceError("Nobody else was found. Type a part of the other name.")
        return Markup("").join(
            cards.likeness_card(
                mine.alike(person, other), (mine.face_of(person), mine.face_of(other)), ask=False
            )
            for other in others
        )

    def look_over(self, request: gr.Request) -> Iterator[Answer]:
        """Find possible duplicates and odd photos in the whole gallery, with progress."""
        try:
            mine = acting(self.service, request)
            with self.jobs.work(request.session_hash) as stopping:
                yield {
                    self.notice: markup.progress_bar("Looking at everyone", 0, 0),
                    self.stop: gr.update(visible=True),
                }
                for step in steps(partial(mine.review, cancel=stopping)):
                    if isinstance(step, tuple):
                        yield {self.notice: markup.progress_bar(*step)}
                    else:
                        shown = self._reviewed(mine, step)
        except Exception as error:
            shown = explain(error)
        yield {self.notice: live(shown), self.stop: gr.update(visible=False)}

    def _reviewed(self, mine: FaceService, found: Review) -> Markup:
        if not found.duplicates and not found.odd:
            return markup.message("info", "No duplicates and no odd photos were found.")
        pairs = [
            cards.likeness_card(
                each, (mine.face_of(each.first.id), mine.face_of(each.second.id)), ask=False
            )
            for each in found.duplicates
        ]
        odd = [(each, mine.thumbnail(each.photo_id)) for each in found.odd]
        return cards.review_card(pairs, odd, may_remove=mine.allowed("admin"))

    def call_off(self, request: gr.Request) -> None:
        """Handle Stop."""
        self.jobs.stop(request.session_hash)


def _known(service: FaceService, person: str | None) -> Person | None:
    """Return the chosen person, if still in the gallery."""
    try:
        return service.person(person) if person else None
    except UnknownPerson:
        return None
