"""People of the gallery as HTML: a grid of faces, one person, namesakes, comparisons."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards import markup
from app.usecases.review import Likeness, OddPhoto
from index.types import Erased, Person, StoredPhoto
from model import wording

LAST_TRACES = (
    "Another program is still reading the gallery, or the search engine is away; the last traces "
    "go with the next write, sync or start."
)


@dataclass(frozen=True)
class Rights:
    """What the user may do with a person."""

    enroll: bool
    admin: bool


def namesakes_card(name: str, people: Sequence[Person], pictures: Sequence[bytes | None]) -> Markup:
    """Render everyone who already has a name, each with a face or an empty box."""
    has = "is somebody" if len(people) == 1 else f"are {wording.count(len(people))} people"
    shown = [
        (person, numbered(person.name, place, len(people)), picture)
        for place, (person, picture) in enumerate(zip(people, pictures, strict=True), 1)
    ]
    return markup.render("namesakes.html", has=has, name=name, shown=shown)


def numbered(name: str, place: int, people: int) -> str:
    """Return a name, with a number if several people have it: ``Ada (2)``."""
    return name if people == 1 else f"{name} ({place})"


def people_grid(
    people: Sequence[Person], faces: Mapping[str, str], total: int, query: str, more: bool
) -> Markup:
    """Render people as a grid of faces.

    Args:
        faces: URL of the face image by person id; missing if there is none.
        query: The name filter, or empty.
        more: Whether there are more people than shown.
    """
    if not people and query:
        return markup.message("info", f"Nobody's name contains “{query}”.")
    if not people:
        return markup.message("info", "Nobody is enrolled yet.", "Add someone on the Enroll tab.")
    lead = wording.plural(total, "person", "people")
    if query or more:
        lead = f"{wording.count(len(people))} of {lead}" + (" with such a name" if query else "")
    return markup.render("people.html", people=people, faces=faces, lead=lead, more=more)


def person_card(
    person: Person,
    photos: Sequence[tuple[StoredPhoto, bytes | None]],
    odd: Mapping[str, float],
    rights: Rights,
    asked: Markup | str = "",
) -> Markup:
    """Render one person: large photos, a rename field, and irreversible actions set apart.

    Args:
        odd: Median score by photo id, for photos unlike the others.
        asked: An open question or a result to show.
    """
    return markup.render(
        "person.html", person=person, photos=photos, odd=odd, rights=rights, asked=asked,
        percent=wording.percent,
    )  # fmt: skip


def likeness_card(
    found: Likeness, faces: tuple[bytes | None, bytes | None], *, ask: bool
) -> Markup:
    """Render two entries side by side, their verdict, and the question whether to merge them."""
    return markup.render("likeness.html", found=found, faces=faces, ask=ask)


def review_card(
    duplicates: Sequence[Markup], odd: Sequence[tuple[OddPhoto, bytes | None]], *, may_remove: bool
) -> Markup:
    """Render possible duplicates, from :func:`likeness_card`, and odd photos."""
    return markup.render("review.html", duplicates=duplicates, odd=odd, may_remove=may_remove)


def erased_card(name: str, erased: Erased) -> Markup:
    parts = [
        wording.plural(erased.photos, "photo record and face vector",
                       "photo records and face vectors"),
        wording.plural(erased.thumbnails, "thumbnail"),
    ]  # fmt: skip
    rest = "Nothing of it is left in any file of the gallery." if erased.complete else LAST_TRACES
    return markup.message(
        "info", f"{name} is forgotten.", f"Erased: the name, {', '.join(parts)}. {rest}"
    )
