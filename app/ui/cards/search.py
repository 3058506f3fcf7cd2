"""Searches as HTML: the people found, marked in the photo and listed beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.faces import boxed, describe
from app.ui.cards.markup import render
from app.usecases.results import Candidate, FaceSearch, Search
from model import wording

MOST_LETTERS = 28


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
    def label(self) -> str:
        """The text on the box; long names are shortened."""
        name = self.best.match.name if self.best else "?"
        return f"{self.place} {name if len(name) <= MOST_LETTERS else name[:MOST_LETTERS] + '…'}"


def left_to_right(found: Search) -> list[FoundFace]:
    ordered = sorted(found.faces, key=lambda each: each.face.face.box[0] + each.face.face.box[2])
    return [
        FoundFace(place, each, each.candidates[0] if each.known else None)
        for place, each in enumerate(ordered, 1)
    ]


def search_card(found: Search, *, photo: int = 0, name: str = "", actions: bool = True) -> Markup:
    """Render all faces of a photo with their candidates.

    Args:
        photo: The photo's index among the photos given, from 0.
        name: The photo's name, if there are several photos.
        actions: Whether to show the buttons for a face.
    """
    faces = left_to_right(found)
    labels = {each.found.face.number: each.label for each in faces}
    searched = set(labels)
    doubtful = [each for each in found.photo.faces if each.number not in searched]
    labels |= {each.number: "?" for each in doubtful}
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
        picture_of=boxed(caption, found.photo, names=labels, longest=1200),
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
