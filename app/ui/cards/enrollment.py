"""Enrollments as HTML: the result of each photo, and the decisions left to the user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.markup import render
from app.usecases.results import PhotoResult

STATUS_WORDS = {
    "accepted": ("same", "Stored"),
    "already": ("inconclusive", "Already there"),
    "duplicate": ("inconclusive", "Already there"),
    "conflict": ("different", "Looks like somebody else"),
    "outlier": ("inconclusive", "Unlike the others"),
    "poor_quality": ("inconclusive", "Poor quality"),
    "no_face": ("different", "No face"),
    "several_faces": ("inconclusive", "Several faces"),
    "bad_image": ("different", "Not a picture"),
    "too_large": ("different", "Too large"),
}


@dataclass(frozen=True, eq=False)
class Decision:
    """An open decision about one refused photo.

    Attributes:
        photo: The photo's hash.
        other: Name of the person it conflicts with, or whose other photos it does not match.
        other_face: JPEG of that person's face, if thumbnails are kept.
        likeness: How similar the two are, in words.
        drawing: The photo with clickable faces, if one must be chosen.
        sure: Whether the question is asked a second time, as a confirmation.
    """

    photo: str
    result: PhotoResult
    other: str = ""
    other_id: str = ""
    other_face: bytes | None = None
    likeness: str = ""
    drawing: Markup | None = None
    sure: bool = False


@dataclass(frozen=True, eq=False)
class Outcome:
    """The current state of an enrollment, for display.

    Attributes:
        person_id: The person who got the photos, once one is stored.
        note: A sentence on whether the person is new.
        stopped: Whether the user stopped before all photos were processed.
    """

    name: str
    results: Sequence[PhotoResult]
    total: int
    decisions: Sequence[Decision] = ()
    person_id: str = ""
    note: str = ""
    stopped: bool = False


def enrollment_card(outcome: Outcome) -> Markup:
    """Render the results so far and the open decisions."""
    undecided = {id(each.result) for each in outcome.decisions}
    return render(
        "enrollment.html",
        outcome=outcome,
        accepted=sum(result.status == "accepted" for result in outcome.results),
        done=len(outcome.results) == outcome.total or outcome.stopped,
        listed=[each for each in outcome.results if id(each) not in undecided],
        words=STATUS_WORDS,
    )
