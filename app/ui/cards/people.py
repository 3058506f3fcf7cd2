"""People, enrollments and searches as HTML cards; escapes every name, note and file name."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from html import escape

from app import text
from app.ui.cards import faces as face_cards
from app.ui.cards import markup
from app.usecases.results import Candidate, Enrollment, FaceSearch, PhotoResult, Search
from index.types import Erased, Person, StoredPhoto
from model.types import Rate

STATUS_WORDS = {
    "accepted": ("same", "Accepted"),
    "duplicate": ("inconclusive", "Already there"),
    "conflict": ("different", "Conflict"),
    "outlier": ("inconclusive", "Unlike the others"),
    "poor_quality": ("inconclusive", "Poor quality"),
    "no_face": ("different", "No face"),
    "several_faces": ("inconclusive", "Several faces"),
    "bad_image": ("different", "Not a picture"),
    "too_large": ("different", "Too large"),
}

_CHANCE = (
    '<p class="fv-lead">Chance for a stranger: that someone who is not in the gallery finds anyone '
    "in it this alike.</p>"
)


def chip(kind: str, words: str) -> str:
    """A short word in its colour, with its sign."""
    return f'<span class="fv-chip fv-{kind}">{markup.icon(kind)}{escape(words)}</span>'


def enrollment_card(
    name: str, results: Sequence[PhotoResult], total: int, *, outcome: str = "",
    stopped: bool = False,
) -> str:  # fmt: skip
    """What became of each photo so far.

    Args:
        name: The person's name.
        results: Results of the photos done.
        total: Photos given.
        outcome: What became of the person, as :func:`went_to` says it.
        stopped: Whether the rest was called off.
    """
    accepted = sum(result.status == "accepted" for result in results)
    done = len(results) == total or stopped
    if not done:
        title = f"Photo {len(results) + 1} of {total} …"
    elif accepted:
        title = f"{name}: {text.plural(accepted, 'photo')} of {text.count(total)} stored"
    else:
        title = f"{name}: no photo was stored"
    bar = (
        f'<progress class="fv-progress" max="{total}" value="{len(results)}" '
        f'aria-label="Photos done">{len(results)} of {total}</progress>'
    )
    items = "".join(
        f"<li>{chip(*STATUS_WORDS[result.status])}<div><strong>{escape(result.name)}</strong>"
        f"<p>{escape(result.message)}</p></div></li>"
        for result in results
    )
    notes = f"<p>{escape(outcome)}</p>" if outcome else ""
    if stopped:
        notes += "<p>Stopped; the photos above stay as they are.</p>"
    return (
        f'<section class="fv-card" aria-label="Enrollment"><h3>{escape(title)}</h3>'
        f'{"" if done else bar}{notes}<ul class="fv-list">{items}</ul></section>'
    )


def went_to(person: Person, created: bool) -> str:
    """Whether the photos made a new person or went to one who was there."""
    if created:
        return f"New person: {person.name}."
    return f"Added to {person.name}, who has {text.plural(person.photos, 'photo')} now."


def namesakes_card(name: str, people: Sequence[Person], pictures: Sequence[bytes | None]) -> str:
    """Everyone who has a name already, each with a face or an empty place."""
    has = "is somebody" if len(people) == 1 else f"are {text.count(len(people))} people"
    figures = "".join(
        f"<figure>{thumbnail(picture, label)}<figcaption>{escape(label)}<br>"
        f"{text.plural(person.photos, 'photo')}<br>added {day(person.created)}"
        "</figcaption></figure>"
        for place, (person, picture) in enumerate(zip(people, pictures, strict=True), 1)
        for label in (numbered(person.name, place, len(people)),)
    )
    return (
        f'<div class="fv-namesakes" role="status"><p><strong>There {has} named {escape(name)} '
        f'already.</strong></p><div class="fv-thumbs">{figures}</div></div>'
    )


def numbered(name: str, place: int, people: int) -> str:
    """A name, with its place where several people have it: ``Ada (2)``."""
    return name if people == 1 else f"{name} ({place})"


def search_card(found: Search) -> str:
    """All faces of a photo with the people they may be."""
    known = sum(each.known for each in found.faces)
    people = text.plural(found.gallery_size, "person", "people")
    title = f"{text.plural(len(found.faces), 'face')} found, {text.count(known)} known"
    promise = (
        f"Searched among {people}. The threshold {found.threshold:.2f} lets "
        f"{text.target(found.target_fpir)} pass for one of them."
    )
    doubt = ""
    if not found.supported:
        doubt = (
            '<p class="fv-doubt">The calibration is too small to measure this for so many '
            "people; the threshold is extrapolated.</p>"
        )
    photo = face_cards.boxed("Your photo", found.photo) if len(found.faces) > 1 else ""
    return (
        f'<section class="fv-card" aria-label="Search result"><h2>{title}</h2>'
        f"<p>{promise}</p>{doubt}{photo}"
        f"{''.join(_found_face(each, len(found.faces)) for each in found.faces)}"
        f"{_CHANCE if any(each.candidates for each in found.faces) else ''}"
        f"<footer>Took {found.seconds:.1f} s</footer></section>"
    )


def person_card(person: Person, photos: Iterable[tuple[StoredPhoto, bytes | None]]) -> str:
    """One person of the gallery with their photos."""
    figures = "".join(
        f"<figure>{thumbnail(picture, label)}<figcaption>{escape(label)}{_note(photo)}"
        "</figcaption></figure>"
        for place, (photo, picture) in enumerate(photos, 1)
        for label in (photo_label(photo, place),)
    )
    consent = person.consent or "none noted"
    return (
        f'<section class="fv-card" aria-label="Person"><h2>{escape(person.name)}</h2>'
        f"<p>{text.plural(person.photos, 'photo')} · added {day(person.created)} · "
        f'consent: {escape(consent)}</p><div class="fv-thumbs">{figures}</div></section>'
    )


def _note(photo: StoredPhoto) -> str:
    return f"<br>Stored all the same ({escape(photo.note)})" if photo.note else ""


def photo_label(photo: StoredPhoto, place: int) -> str:
    """What a person's photo is called where all are shown: ``2. garden.jpg``."""
    return f"{place}. {photo.source_name or 'photo'}"


def people_table(people: Sequence[Person], total: int, query: str, start: int = 0) -> str:
    """A part of the list of people.

    Args:
        people: Those of this part.
        total: How many are enrolled.
        query: What their names contain, or empty.
        start: How many come before this part.
    """
    if not people and query:
        return markup.message("info", f"Nobody's name contains “{query}”.")
    if not people:
        return markup.message("info", "Nobody is enrolled yet.", "Add someone on the Enroll tab.")
    rows = [
        (person.name, text.count(person.photos), day(person.created), person.consent or "–")
        for person in people
    ]
    lead = text.plural(total, "person", "people")
    if len(people) < total:
        part = f"{text.count(start + 1)} to {text.count(start + len(people))}"
        lead = f"Found {part}, of {lead}" if query else f"{part} of {lead}"
    return f'<p class="fv-lead">{lead}</p>' + markup.table(
        ("Name", "Photos", "Added", "Consent"), rows, "People"
    )


LAST_TRACES = (
    "Another program is still reading the gallery, or the search engine is away; the last traces "
    "go with the next write, sync or start."
)


def erased_card(name: str, erased: Erased) -> str:
    """What a "forget" removed."""
    parts = [
        text.plural(erased.photos, "photo record and face vector",
                    "photo records and face vectors"),
        text.plural(erased.thumbnails, "thumbnail"),
    ]  # fmt: skip
    rest = "Nothing of it is left in any file of the gallery." if erased.complete else LAST_TRACES
    return markup.message(
        "info", f"{name} is forgotten.", f"Erased: the name, {', '.join(parts)}. {rest}"
    )


def thumbnail(picture: bytes | None, label: str) -> str:
    """A stored thumbnail, or an empty place of the same size."""
    if picture is None:
        return f'<span class="fv-crop fv-small" role="img" aria-label="{escape(label)}"></span>'
    return (
        f'<img class="fv-crop fv-small" src="{markup.data_address(picture)}" width="72" '
        f'height="72" alt="{escape(label)}">'
    )


def day(seconds: float) -> str:
    """Seconds since the epoch as a date, or a dash."""
    return time.strftime("%Y-%m-%d", time.localtime(seconds)) if seconds else "–"


def enrollment_done(result: Enrollment) -> PhotoResult:
    """The result of an enrollment of one photo."""
    return result.photos[0]


def _found_face(found: FaceSearch, faces: int) -> str:
    number = f"Face {found.face.number}" if faces > 1 else "Your photo"
    best = found.candidates[0] if found.candidates else None
    if best is not None and best.known:
        head = f"{chip('same', 'Known')}<h3>{escape(best.match.name)}</h3>"
    else:
        head = f"{chip('inconclusive', 'Unknown')}<h3>Nobody in the gallery is like enough</h3>"
    above = [each for each in found.candidates if each.known]
    below = [each for each in found.candidates if not each.known]
    listed = _candidates(above, "People, best first") if above else ""
    if below:
        words = "Closest people, all below the threshold"
        listed += f"<details><summary>{words}</summary>{_candidates(below, words)}</details>"
    return (
        f'<article class="fv-face" aria-label="{number}"><div class="fv-compared">'
        f"{face_cards.crop(found.face, number)}<div>{head}"
        f"{face_cards.quality_list(found.face.quality)}</div></div>{listed}</article>"
    )


def _candidates(candidates: Sequence[Candidate], label: str) -> str:
    headings = ("", "Name", "Score", "Ahead of the next by", "Chance for a stranger")
    return markup.raw_table(headings, [_candidate(each) for each in candidates], label)


def _candidate(candidate: Candidate) -> tuple[str, ...]:
    match = candidate.match
    margin = "–" if match.margin is None else f"{match.margin:.2f}"
    mark = chip("same", "Known") if candidate.known else ""
    return (
        thumbnail(candidate.thumbnail, match.name),
        f"<span>{escape(match.name)} {mark}</span>",
        f"{match.score:.2f}",
        margin,
        _chance(candidate.false_match_chance),
    )


def _chance(rate: Rate) -> str:
    """A chance, with the upper end of its 95% interval where it is small."""
    if rate.value > 0.2:
        return text.percent(rate.value)
    high = f"at most {text.one_in(rate.high)}"
    return high if rate.value <= 0 else f"{text.one_in(rate.value)} ({high})"
