"""Actions on the Gallery tab that need a confirmation: the question and the action."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from markupsafe import Markup

from app.service import FaceService
from app.ui.cards import markup
from app.ui.cards import people as people_cards
from model import wording
from model.errors import GalleryError, UnknownPerson

Outcome = tuple[Markup, str | None]
"""The result as a card, and the id of the person to show next, if any."""


@dataclass(frozen=True)
class Confirmation:
    """An action that needs a confirmation.

    Attributes:
        ask: Renders the question, given the service, the person's id and the chosen value.
        yes: Label of the confirm button; empty if the question has its own.
        do: Performs the action, given the same three arguments.
    """

    ask: Callable[[FaceService, str, str], Markup]
    yes: str
    do: Callable[[FaceService, str, str], Outcome]

    def question(self, kind: str, mine: FaceService, person: str, value: str) -> Markup:
        """Render the question with its buttons."""
        asked = self.ask(mine, person, value)
        if not self.yes:
            return asked
        return markup.render("ask.html", kind=kind, asked=asked, yes=self.yes, value=value)


def _ask_merge(mine: FaceService, person: str, other: str) -> Markup:
    if person == other:
        raise GalleryError("A person cannot be merged with itself. Choose two entries.")
    faces = mine.face_of(person), mine.face_of(other)
    return people_cards.likeness_card(mine.alike(person, other), faces, ask=True)


def _merge(mine: FaceService, person: str, other: str) -> Outcome:
    kept = mine.merge(person, other)
    photos = wording.plural(kept.photos, "photo")
    return markup.message("info", f"{kept.name} has all {photos} now."), person


def _ask_remove(mine: FaceService, person: str, photo: str) -> Markup:
    who = mine.person(person)
    last = f" It is the only one: no search finds {who.name} without it." if who.photos == 1 else ""
    return Markup("{}").format(
        f"Erase {_photo_name(mine, person, photo)} of {who.name}: its face "
        f"vector and thumbnail?{last} This cannot be undone."
    )


def _remove(mine: FaceService, person: str, photo: str) -> Outcome:
    name = _photo_name(mine, person, photo)
    if mine.remove_photo(person, photo).complete:
        return markup.message("info", f"Removed {name} for good."), person
    return markup.message("info", f"Removed {name}.", people_cards.LAST_TRACES), person


def _photo_name(mine: FaceService, person: str, photo_id: str) -> str:
    """Return a photo's name for use in a sentence: ``photo 2 (garden.jpg)``."""
    for place, photo in enumerate(mine.photos(person), 1):
        if photo.id == photo_id:
            return f"photo {place}" + (f" ({photo.source_name})" if photo.source_name else "")
    raise UnknownPerson("This photo is not there any more.")


def _ask_forget(mine: FaceService, person: str, _: str) -> Markup:
    who = mine.person(person)
    photos = wording.plural(who.photos, "photo")
    return Markup("{}").format(
        f"Erase {who.name} for good: the name, the consent note, {photos} and the face vectors? "
        "This cannot be undone."
    )


def _forget(mine: FaceService, person: str, _: str) -> Outcome:
    name = mine.person(person).name
    return people_cards.erased_card(name, mine.forget(person)), None


def _ask_rename(mine: FaceService, person: str, name: str) -> Markup:
    others = [each for each in mine.named(name) if each.id != person]
    shown = people_cards.namesakes_card(name, others, [mine.face_of(each.id) for each in others])
    return shown + Markup("{}").format(
        f"Call this entry {name} too? Both stay apart. If they are one person, merge them instead."
    )


def _rename(mine: FaceService, person: str, name: str) -> Outcome:
    return markup.message("info", f"Now called {mine.rename(person, name).name}."), person


STEPS: dict[str, Confirmation] = {
    "merge": Confirmation(_ask_merge, "", _merge),
    "remove": Confirmation(_ask_remove, "Erase the photo for good", _remove),
    "forget": Confirmation(_ask_forget, "Erase for good", _forget),
    "rename": Confirmation(_ask_rename, "Use the name all the same", _rename),
}


def name_is_taken(mine: FaceService, person: str, name: str) -> bool:
    return any(each.id != person for each in mine.named(name))
