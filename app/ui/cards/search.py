"""Searches as HTML: the people found, marked in the photo and listed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.faces import Name, boxed, describe
from app.ui.cards.markup import render
from app.usecases.results import Candidate, FaceSearch, Search
from model import wording

MOST_LETTERS, FEWEST_LETTERS = 28, 9
"""Letters of a name, and of its first word, that a label shows."""


@dataclass(frozen=True, eq=False)
class FoundFace:
    """A face with its position in the photo.

    Attributes:
        place: Number from 1, left to right, shown on its box and its card.
        best: The person identified, or None for an unknown face.
    """

    place: int
    found: FaceSearch
    best: Candidate | None

    @property
    def name(self) -> Name:
        """What the face is called; its label is shortened to a first word or the number alone."""
        if not self.best:
            return Name(f"{self.place}, unknown", (f"{self.place} ?", str(self.place)))
        name = self.best.match.name
        first = name.partition(" ")[0]
        shown = (_shortened(name, MOST_LETTERS), _shortened(first, FEWEST_LETTERS))
        texts = (*(f"{self.place} {each}" for each in shown), str(self.place))
        return Name(f"{self.place} {name}", texts)


def left_to_right(found: Search) -> list[FoundFace]:
    ordered = sorted(found.faces, key=lambda each: each.face.face.box[0] + each.face.face.box[2])
    return [
        FoundFace(place, each, each.candidates[0] if each.known else None)
        for place, each in enumerate(ordered, 1)
    ]


def _shortened(name: str, most: int) -> str:
    return name if len(name) <= most else name[:most] + "…"


def names_of(found: Search) -> dict[int, Name]:
    """Return what every face is called, by its number; a doubtful one may go without a label."""
    searched = {each.found.face.number: each.name for each in left_to_right(found)}
    return {
        each.number: searched.get(each.number, Name("?", ("?", ""))) for each in found.photo.faces
    }


def search_card(found: Search, *, photo: int = 0, name: str = "", actions: bool = True) -> Markup:
    """Render all faces of a photo with their candidates.

    Args:
        photo: The photo's index among the photos given, from 0.
        name: The photo's name, if there are several photos.
        actions: Whether to show the buttons for a face.
    """
    faces = left_to_right(found)
    searched = {each.found.face.number for each in faces}
    doubtful = [each for each in found.photo.faces if each.number not in searched]
    caption = name or "Your photo"
    return render(
        "search.html",
        found=found,
        name=name,
        photo=photo,
        known=[each for each in faces if each.best],
        unknown=[each for each in faces if not each.best],
        doubtful=doubtful,
        describe=describe,
        actions=actions,
        picture_of=boxed(caption, found.photo, names=names_of(found), longest=1200),
    )


def who_is_where(found: Sequence[tuple[str, Search | str]]) -> Markup:
    """Render a table of several photos: one row per photo, with the people found or the error."""
    rows = []
    for photo, (name, each) in enumerate(found):
        if isinstance(each, str):
            rows.append((photo, name, each, "", 0))
            continue
        faces = left_to_right(each)
        known = ", ".join(face.best.match.name for face in faces if face.best)
        rows.append((photo, name, "", known, sum(face.best is None for face in faces)))
    photos = wording.plural(len(rows), "photo")
    people = {
        face.best.match.person_id
        for _, each in found if not isinstance(each, str)
        for face in left_to_right(each) if face.best
    }  # fmt: skip
    title = f"{photos}, {wording.plural(len(people), 'known person', 'known people')}"
    return render("who_is_where.html", rows=rows, title=title)
