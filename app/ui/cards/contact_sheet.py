"""A contact sheet of clustered photos: one HTML file with every face, group by group."""

from __future__ import annotations

from markupsafe import Markup

from app.ui.cards.markup import render
from app.ui.cards.report import STYLE
from app.usecases.many import Clustered


def contact_sheet(found: Clustered) -> str:
    style = Markup(STYLE.read_text(encoding="utf-8"))
    return str(render("contact_sheet.html", found=found, style=style))
