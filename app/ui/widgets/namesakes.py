"""Enrollment under a name that someone already has: show those people and ask who is meant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gradio as gr

from app.service import FaceService
from app.ui.cards import people as people_cards
from index.types import Person

NEW = "new"
"""The choice "another person with that name"; every other choice is a person's id."""


@dataclass(frozen=True)
class Namesakes:
    """The component group that shows who has the name and asks who is meant.

    Attributes:
        group: Visible while someone has the name.
        faces: Everyone who has it, with a face if thumbnails are kept.
        meant: The choice: an id, ``NEW``, or None if nothing is chosen.
    """

    group: gr.Group
    faces: gr.HTML
    meant: gr.Radio

    @classmethod
    def build(cls) -> Namesakes:
        """Add the group, hidden, at the current position in the page."""
        with gr.Group(visible=False, elem_id="enroll-namesakes") as group:
            faces = gr.HTML("", apply_default_css=False, js_on_load=None)
            meant = gr.Radio(label="Who is it?", elem_id="enroll-meant")
        return cls(group, faces, meant)

    @property
    def outputs(self) -> list[Any]:
        return [self.group, self.faces, self.meant]

    def show(
        self, mine: FaceService, name: str, people: Sequence[Person], chosen: str | None = None
    ) -> dict[Any, Any]:
        """Show who has the name.

        Args:
            chosen: The choice to select; None keeps the current one.
        """
        if not people:
            return self.hidden()
        pictures = [mine.face_of(person.id) for person in people]
        choice = {"value": chosen} if chosen else {}
        return {
            self.group: gr.update(visible=True),
            self.faces: people_cards.namesakes_card(name, people, pictures),
            self.meant: gr.update(choices=_choices(people), **choice),
        }

    def hidden(self) -> dict[Any, Any]:
        """Hide the group: nobody has the name, or it is not known yet."""
        return {self.group: gr.update(visible=False), self.meant: gr.update(value=None)}


def open_question(people: Sequence[Person], meant: str | None) -> bool:
    """Return whether the user must first choose who is meant."""
    return bool(people) and meant not in (NEW, *(person.id for person in people))


def _choices(people: Sequence[Person]) -> list[tuple[str, str]]:
    known = [
        (f"Add to {people_cards.numbered(person.name, place, len(people))}", person.id)
        for place, person in enumerate(people, 1)
    ]
    return [*known, ("Another person of that name", NEW)]
