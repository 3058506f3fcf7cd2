"""A verification as an HTML card."""

from __future__ import annotations

from markupsafe import Markup

from app.ui.cards import plots
from app.ui.cards.faces import boxed
from app.ui.cards.markup import chip, render, table
from app.usecases.results import ChoiceNeeded, Compared
from model import wording
from model.types import Verdict

SIDES = ("First photo", "Second photo")

OTHER_PHOTOS = (
    "Use other photos: from the front, evenly lit, the face at least 100 pixels wide.",
    "Or accept more strangers: choose a less strict limit above.",
)


def verdict_card(result: Compared, curves: plots.Curves | None, *, report: bool = True) -> Markup:
    """Render the result of one verification.

    Args:
        curves: The calibration's distributions to draw, if any.
        report: Whether to offer a report.
    """
    verdict = result.verdict
    photos = (result.photo_a, result.photo_b)
    return render(
        "verdict.html",
        result=result,
        verdict=verdict,
        strength="weak" if result.same_file else wording.strength(verdict),
        advice=advice(result),
        sides=list(zip(SIDES, (result.face_a, result.face_b), photos, strict=True)),
        drawings={
            caption: boxed(caption, photo, act="choose", data={"side": str(side)})
            for side, (caption, photo) in enumerate(zip(SIDES, photos, strict=True))
            if len(photo.faces) > 1
        },
        drawing=drawing(verdict, curves),
        report=report,
    )


def advice(result: Compared) -> list[str]:
    """Return advice on an inconclusive verdict; empty for any other verdict."""
    if result.verdict.decision != "inconclusive":
        return []
    lines = [
        f"{caption}: {reason.message}"
        for caption, face in zip(SIDES, (result.face_a, result.face_b), strict=True)
        for reason in face.quality.reasons
    ]
    return lines or list(OTHER_PHOTOS)


def drawing(verdict: Verdict, curves: plots.Curves | None) -> Markup:
    """Draw the score among the calibration's distributions."""
    if curves is None:
        return Markup("")
    # A poor photo is inconclusive at any score, so no band may say "same".
    banded = verdict.likelihood_ratio is not None
    return plots.LEGEND + plots.distributions(
        curves,
        score=verdict.score,
        threshold=verdict.threshold if banded else None,
        reject_below=verdict.reject_below if banded else None,
    )


def choice_card(result: ChoiceNeeded) -> Markup:
    """Render the choice between several faces: clickable photos and the verdict of every pair."""
    rows = [
        (
            str(pair.face_a),
            str(pair.face_b),
            chip(pair.verdict.decision, wording.HEADLINES[pair.verdict.decision]),
            wording.chances(pair.verdict.fmr)[0],
        )
        for pair in result.pairs
    ]
    headings = ("First photo", "Second photo", "Verdict", "Strangers this alike")
    photos = (result.photo_a, result.photo_b)
    return render(
        "choice.html",
        drawings=[
            boxed(caption, photo, act="choose" if len(photo.faces) > 1 else "",
                  data={"side": str(side)})
            for side, (caption, photo) in enumerate(zip(SIDES, photos, strict=True))
        ],
        rows=table(headings, rows, "Every pair of faces"),
    )  # fmt: skip
