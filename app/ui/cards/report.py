"""Reports of a verdict, a search or a sorted heap: one HTML file each, which prints well."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from app.ui.cards import search as search_cards
from app.ui.cards import verdict as verdict_cards
from app.ui.cards.curves import curves_of
from app.ui.cards.faces import boxed
from app.ui.cards.markup import live, render
from app.ui.cards.pairs import pairs_card
from app.usecases.many import Clustered
from app.usecases.results import Compared, Search
from model import wording

if TYPE_CHECKING:
    from app.service import FaceService
    from app.ui.downloads import Downloads

STYLE = Path(__file__).parents[1] / "static" / "style.css"


def verification(result: Compared, service: FaceService, *, note: str = "") -> str:
    """Render the report of a verdict."""
    verdict = result.verdict
    photos = [
        boxed(f"{caption} (face {face.number} was compared)", photo)
        for caption, face, photo in zip(
            verdict_cards.SIDES, (result.face_a, result.face_b), (result.photo_a, result.photo_b),
            strict=True,
        )
    ]  # fmt: skip
    settings = [
        ("Limit", wording.target(verdict.target_fmr).capitalize() + " pass for the same person"),
        ("Likely beforehand", wording.one_in(verdict.prior) if verdict.prior else "not said"),
    ]
    return _page(
        "Are these two photos of one person?",
        verdict_cards.verdict_card(result, curves_of(service.calibration()), report=False),
        photos, settings, service, note,
    )  # fmt: skip


def search(found: Search, service: FaceService, *, note: str = "") -> str:
    settings = [
        ("Searched among", wording.plural(found.gallery_size, "person", "people")),
        ("Limit", wording.target(found.target_fpir).capitalize() + " pass for one of them"),
    ]
    card = search_cards.search_card(found, actions=False)
    return _page("Who is in this photo?", card, [], settings, service, note)


def pairs(
    rows: Sequence[Mapping[str, Any]], service: FaceService, target_fmr: float | None, *,
    note: str = "",
) -> str:  # fmt: skip
    """Render the report of many pairs, given as rows of their CSV."""
    target = target_fmr or service.settings.target_fmr
    settings = [("Limit", wording.target(target).capitalize() + " pass for the same person")]
    card = pairs_card(rows, actions=False)
    return _page("Are the photos of each pair of one person?", card, [], settings, service, note)


def contact_sheet(found: Clustered) -> str:
    """Render clustered photos, group by group, as one HTML file with every face."""
    style = Markup(STYLE.read_text(encoding="utf-8"))
    return str(render("contact_sheet.html", found=found, style=style))


def _page(
    question: str, card: Markup, photos: list[Markup], settings: list[tuple[str, str]],
    service: FaceService, note: str,
) -> str:  # fmt: skip
    info, calibration = service.model_info(), service.calibration()
    people = wording.plural(calibration.people, "person", "people")
    facts = [
        *settings,
        ("Model", f"{info.name}, id {info.model_id[:16]}"),
        ("Calibration", f"{calibration.id} of {calibration.created[:10]}"),
        ("Measured on", f"{people}: {calibration.protocol}"),
        ("Made on", time.strftime("%Y-%m-%d %H:%M %Z")),
    ]
    return str(
        render(
            "report.html",
            question=question, card=card, photos=photos, facts=facts, note=note.strip(),
            style=Markup(STYLE.read_text(encoding="utf-8")),
        )
    )  # fmt: skip


def offer(downloads: Downloads, name: str, text: str, owner: str | None) -> Markup:
    """Return a one-time link that downloads a text by itself, for the user who requested it."""
    address, _, _ = downloads.offer(
        name, lambda file: file.write_text(text, encoding="utf-8"), owner
    )
    return live(
        Markup(
            '<p class="fv-lead">Downloaded; nothing of it stays here. '
            '<a data-fetch="{0}" href="{0}" download="{1}">{1}</a></p>'
        ).format(address, name)
    )
