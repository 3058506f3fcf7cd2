"""What cannot be undone on the Gallery tab: the question asked first, and what is done then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app import text
from app.service import FaceService
from app.ui.cards import markup
from app.ui.cards import people as people_cards
from model.errors import GalleryError, UnknownPerson

Outcome = tuple[str, str | None]
"""What happened, as a card, and the id of the person to show then, if any."""


@dataclass(frozen=True)
class Confirmation:
    """One thing that cannot be undone.

    Attributes:
        ask: From the service, a person's id and what was chosen to the question, plain text.
        yes: What the button that does it says.
        do: Does it, from the same three.
    """

    ask: Callable[[FaceService, str, str | None], str]
    yes: str
    do: Callable[[FaceService, str, str | None], Outcome]


def _ask_merge(mine: FaceService, person: str, other: str | None) -> str:
    if other is None:
        raise GalleryError("Choose the second person first.")
    kept, gone = mine.person(person), mine.person(other)
    moved = text.plural(gone.photos, "photo")
    return (
        f"Move {moved} of {gone.name} to {kept.name}? The entry {gone.name} and its consent note "
        "are erased, and nobody can tell afterwards whose photos they were. This cannot be undone."
    )


def _merge(mine: FaceService, person: str, other: str | None) -> Outcome:
    kept = mine.merge(person, other)
    photos = text.plural(kept.photos, "photo")
    return markup.message("info", f"{kept.name} has all {photos} now."), person


def _ask_remove(mine: FaceService, person: str, photo: str | None) -> str:
    if photo is None:
        raise GalleryError("Choose a photo first.")
    who = mine.person(person)
    last = f" It is the only one: no search finds {who.name} without it." if who.photos == 1 else ""
    return (
        f"Erase {_photo_name(mine, person, photo)} of {who.name}: its face "
        f"vector and thumbnail?{last} This cannot be undone."
    )


def _remove(mine: FaceService, person: str, photo: str | None) -> Outcome:
    name = _photo_name(mine, person, photo)
    if mine.remove_photo(person, photo).complete:
        return markup.message("info", f"Removed {name} for good."), person
    return markup.message("info", f"Removed {name}.", people_cards.LAST_TRACES), person


def _photo_name(mine: FaceService, person: str, photo_id: str) -> str:
    """What a photo is called in a sentence: ``photo 2 (garden.jpg)``."""
    for place, photo in enumerate(mine.photos(person), 1):
        if photo.id == photo_id:
            return f"photo {place}" + (f" ({photo.source_name})" if photo.source_name else "")
    raise UnknownPerson("This photo is not there any more.")


def _ask_forget(mine: FaceService, person: str, _: str | None) -> str:
    who = mine.person(person)
    photos = text.plural(who.photos, "photo")
    return (
        f"Erase {who.name} for good: the name, the consent note, {photos} and the face vectors? "
        "This cannot be undone."
    )


def _forget(mine: FaceService, person: str, _: str | None) -> Outcome:
    name = mine.person(person).name
    return people_cards.erased_card(name, mine.forget(person)), None


STEPS: dict[str, Confirmation] = {
    "merge": Confirmation(_ask_merge, "Merge for good", _merge),
    "remove": Confirmation(_ask_remove, "Erase the photo for good", _remove),
    "forget": Confirmation(_ask_forget, "Erase for good", _forget),
}
