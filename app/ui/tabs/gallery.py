"""Gallery: the people enrolled; rename, merge, remove, forget, export and import."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import Any

import gradio as gr

from app import text
from app.service import FaceService
from app.ui import private_folder
from app.ui.cards import markup
from app.ui.cards import people as people_cards
from app.ui.downloads import Downloads
from app.ui.widgets.common import QUIET, acting, at_once, explain, live
from app.ui.widgets.confirmations import STEPS, Outcome
from app.ui.widgets.upload_limits import limit_note
from index.types import Person
from model.errors import UnknownPerson

_LARGER = "For a larger export use python -m index import on the server."

MOST_LISTED = 100
"""People shown at a time; the rest are on further pages, or found by name."""


def tab(page: gr.Blocks, own: gr.Tab, service: FaceService, downloads: Downloads) -> None:
    """Build the tab.

    Args:
        page: The page, whose loading fills the list.
        own: This tab, whose opening refreshes it.
        service: Answers everything.
        downloads: Where exports are offered.
    """
    with gr.Row(elem_classes="fv-controls"):
        query = gr.Textbox("", label="Find a name", elem_id="gallery-query", scale=2)
        person = gr.Dropdown(
            [], label="Person", elem_id="gallery-person", scale=2, filterable=True, value=None
        )
    notice = gr.HTML("", apply_default_css=False, elem_id="gallery-notice", js_on_load=None)
    details = gr.HTML("", apply_default_css=False, elem_id="gallery-details", js_on_load=None)
    with gr.Column(visible=False) as tools:
        with gr.Row(elem_classes="fv-controls"):
            new_name = gr.Textbox("", label="New name", max_length=200, elem_id="gallery-new-name")
            rename = gr.Button("Rename", elem_id="gallery-rename")
        with gr.Row(elem_classes="fv-controls"):
            other = gr.Dropdown([], label="Is the same person as", elem_id="gallery-other")
            merge = gr.Button("Merge the two …", elem_id="gallery-merge")
        with gr.Row(elem_classes="fv-controls"):
            photo = gr.Dropdown([], label="Photo", elem_id="gallery-photo")
            remove = gr.Button("Remove this photo …", elem_id="gallery-remove")
        forget = gr.Button("Forget this person …", elem_id="gallery-forget")
        with gr.Group(visible=False) as confirm:
            question = gr.HTML("", apply_default_css=False, js_on_load=None)
            with gr.Row():
                erase = gr.Button("Erase for good", variant="stop", elem_id="gallery-erase")
                keep = gr.Button("Keep", elem_id="gallery-keep")
        asked = gr.State(None)
    listing = gr.HTML("", apply_default_css=False, elem_id="gallery-list", js_on_load=None)
    start = gr.State(0)
    with gr.Row(visible=False) as turning:
        earlier = gr.Button("Previous", elem_id="gallery-earlier")
        later = gr.Button("Next", elem_id="gallery-later")
    with gr.Accordion("Export and import", open=False, elem_id="gallery-transfer") as transfer:
        gr.HTML(
            '<p class="fv-lead">An export holds names, consent notes, face vectors and '
            "thumbnails. Keep it as safe as the gallery itself.</p>",
            apply_default_css=False, js_on_load=None,
        )  # fmt: skip
        export = gr.Button("Export the whole gallery", elem_id="gallery-export")
        skip = gr.Checkbox(
            False, label="Leave people who are here already as they are", elem_id="gallery-skip"
        )
        file = gr.File(label="Exported gallery to import", elem_id="gallery-file", height=130)
        too_large = limit_note("gallery-file", service.settings, _LARGER)
        offered = gr.HTML("", apply_default_css=False, elem_id="gallery-offer", js_on_load=None)

    def list_people(mine: FaceService, words: str, place: int) -> tuple[dict, list[Person]]:
        """The part of the list that begins at ``place``, or the last one before it."""
        people = mine.people(query=words, limit=MOST_LISTED + 1, offset=place)
        if not people and place:
            return list_people(mine, words, max(0, place - MOST_LISTED))
        more, people = len(people) > MOST_LISTED, people[:MOST_LISTED]
        return {
            listing: people_cards.people_table(people, mine.count(), words, place),
            start: place,
            turning: gr.update(visible=more or place > 0),
            earlier: gr.update(interactive=place > 0),
            later: gr.update(interactive=more),
            transfer: gr.update(visible=mine.allowed("admin")),
        }, people

    def refresh(words: str, chosen: str | None, place: int, request: gr.Request) -> dict[Any, Any]:
        """The list and the person shown, as they are now."""
        try:
            mine = acting(service, request)
            answer, people = list_people(mine, (words or "").strip(), place)
            choices = [(_label(each), each.id) for each in people]
            who = _known(mine, chosen)
            if who is None:
                answer[person] = gr.update(choices=choices, value=None)
                return answer | {details: "", tools: gr.update(visible=False)}
            photos = mine.photos(chosen)
            shown = [(each, mine.thumbnail(each.id)) for each in photos]
        except Exception as error:
            return {listing: explain(error), details: "", tools: gr.update(visible=False)}
        others = [choice for choice in choices if choice[1] != chosen]
        own_choice = [] if len(others) < len(choices) else [(_label(who), chosen)]
        numbers = [
            (people_cards.photo_label(each, place), each.id) for place, each in enumerate(photos, 1)
        ]
        return answer | {
            person: gr.update(choices=own_choice + choices, value=chosen),
            details: people_cards.person_card(who, shown),
            tools: gr.update(visible=True),
            new_name: who.name,
            other: gr.update(choices=others, value=None),
            photo: gr.update(choices=numbers, value=None),
            confirm: gr.update(visible=False),
        }

    outputs = [listing, start, turning, earlier, later, transfer, person, details, tools, new_name,
               other, photo, confirm]  # fmt: skip
    state = [query, person, start]

    def show(words: str, chosen: str | None, place: int, request: gr.Request) -> dict[Any, Any]:
        return {notice: "", **refresh(words, chosen, place, request)}

    def turn(by: int) -> Callable[..., dict[Any, Any]]:
        def run(words: str, chosen: str | None, place: int, request: gr.Request) -> dict[Any, Any]:
            return {notice: "", **refresh(words, chosen, max(0, place + by), request)}

        return run

    def find(words: str, chosen: str | None, request: gr.Request) -> dict[Any, Any]:
        return {notice: "", **refresh(words, chosen, 0, request)}

    def act(change: Callable[..., Outcome], saying: gr.HTML = notice) -> Any:
        """Wrap a change of the gallery: say what happened, then show what is there now."""

        def run(
            words: str, chosen: str | None, place: int, value: Any, request: gr.Request
        ) -> dict[Any, Any]:
            try:
                said, chosen = change(acting(service, request), chosen, value)
            except Exception as error:
                said = explain(error)
            silent = {notice: "", offered: ""}
            return silent | {saying: live(said)} | refresh(words, chosen, place, request)

        return run

    def do_rename(mine: FaceService, chosen: str, name: str) -> Outcome:
        return markup.message("info", f"Now called {mine.rename(chosen, name).name}."), chosen

    def ask(kind: str) -> Callable[..., dict[Any, Any]]:
        """Wrap the question before something that cannot be undone."""

        def run(chosen: str, value: str | None, request: gr.Request) -> dict[Any, Any]:
            try:
                words = STEPS[kind].ask(acting(service, request), chosen, value)
            except Exception as error:
                return {notice: live(explain(error)), confirm: gr.update(visible=False)}
            return {
                notice: "",
                asked: (kind, chosen, value),
                confirm: gr.update(visible=True),
                question: f'<p class="fv-ask" role="alert">{escape(words)}</p>',
                erase: STEPS[kind].yes,
            }

        return run

    def do_asked(mine: FaceService, _: str, what: tuple[str, str, str | None]) -> Outcome:
        kind, chosen, value = what
        return STEPS[kind].do(mine, chosen, value)

    def do_export(request: gr.Request) -> dict[Any, Any]:
        try:
            write = acting(service, request).export
            address, size, number = downloads.offer("gallery.faces", write, request.username)
        except Exception as error:
            return {notice: "", offered: live(explain(error))}
        link = (
            f'<p><a class="fv-button" href="{address}" download="gallery.faces">Download '
            f"{text.plural(number, 'person', 'people')} ({text.size(size)})</a> Good for one "
            "download within ten minutes.</p>"
        )
        return {notice: "", offered: live(link)}

    def do_import(mine: FaceService, chosen: str | None, given: tuple[str | None, bool]) -> Outcome:
        path, leave = given
        if path is None:
            return "", chosen
        number = mine.import_(Path(path), existing="skip" if leave else "error")
        return markup.message("info", f"Added {text.plural(number, 'person', 'people')}."), chosen

    def import_file(
        words: str, chosen: str | None, place: int, path: str | None, leave: bool,
        request: gr.Request,
    ) -> dict[Any, Any]:  # fmt: skip
        try:
            imported = act(do_import, offered)(words, chosen, place, (path, leave), request)
            return imported | {file: None}
        finally:
            private_folder.discard(path)

    changed = [notice, *outputs]
    acted = [*changed, offered]
    quiet = {"show_progress": "hidden", **QUIET}
    page.load(show, state, changed, **quiet)
    own.select(show, state, changed, **quiet)
    person.input(show, state, changed, **quiet)
    query.change(find, [query, person], changed, **quiet)
    earlier.click(turn(-MOST_LISTED), state, changed, **quiet)
    later.click(turn(MOST_LISTED), state, changed, **quiet)
    rename.click(act(do_rename), [*state, new_name], acted, show_progress_on=notice, **QUIET)
    asking = [notice, asked, confirm, question, erase]
    merge.click(ask("merge"), [person, other], asking, **quiet)
    remove.click(ask("remove"), [person, photo], asking, **quiet)
    forget.click(ask("forget"), [person, person], asking, **quiet)
    erase.click(act(do_asked), [*state, asked], acted, show_progress_on=notice, **QUIET)
    keep.click(lambda: gr.update(visible=False), None, confirm, queue=False, **QUIET)
    export.click(do_export, None, [notice, offered], **QUIET)
    file.upload(
        import_file, [*state, file, skip], [*acted, file], show_progress_on=offered, **QUIET
    )
    too_large.refused(inputs=None, outputs=[notice, offered], **at_once("", ""))


def _known(service: FaceService, chosen: str | None) -> Person | None:
    """The person chosen, if still in the gallery."""
    try:
        return service.person(chosen) if chosen else None
    except UnknownPerson:
        return None


def _label(person: Person) -> str:
    return f"{person.name} ({text.plural(person.photos, 'photo')})"
