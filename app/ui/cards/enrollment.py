"""Enrollments as HTML: what became of each photo, and the decisions that are left to a person."""

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
    """What is left to decide about one refused photo.

    Attributes:
        photo: The photo's hash.
        result: Why it was refused.
        other: Name of the person it conflicts with, or of the record it does not fit.
        other_id: That person's id.
        other_face: JPEG of that person's face, if one is kept.
        likeness: How alike the two are, in words.
        drawing: The photo with clickable faces, where one must be chosen.
        sure: Whether it is asked for the second time.
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
    """An enrollment as it stands.

    Attributes:
        name: The person's name.
        results: Results of the photos done.
        total: Photos given.
        decisions: What is left to decide.
        person_id: Who got the photos, once one was stored.
        note: What became of the person, a sentence.
        stopped: Whether the rest was called off.
    """

    name: str
    results: Sequence[PhotoResult]
    total: int
    decisions: Sequence[Decision] = ()
    person_id: str = ""
    note: str = ""
    stopped: bool = False


def enrollment_card(outcome: Outcome) -> Markup:
    """What became of each photo so far, and what is left to decide."""
    undecided = {id(each.result) for each in outcome.decisions}
    return render(
        "enrollment.html",
        outcome=outcome,
        accepted=sum(result.status == "accepted" for result in outcome.results),
        done=len(outcome.results) == outcome.total or outcome.stopped,
        listed=[each for each in outcome.results if id(each) not in undecided],
        words=STATUS_WORDS,
    )
