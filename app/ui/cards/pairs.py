"""Many pairs as HTML: one row per pair, with its answer in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from app.ui.cards.markup import chip, render, table
from model import wording
from model.types import Decision


def pairs_card(
    rows: Sequence[Mapping[str, Any]], *, note: str = "", actions: bool = True
) -> Markup:
    """Render the answers of many pairs.

    Args:
        rows: Rows with the columns of :data:`app.usecases.many.COLUMNS`.
        note: A sentence above the table, such as which photos have no partner.
        actions: Whether to offer the answers as files.
    """
    decisions: list[Decision | None] = [row["decision"] or None for row in rows]
    listed = [(row["first"], row["second"], chip(_look(row), row["headline"])) for row in rows]
    return render(
        "pairs.html",
        title=f"{wording.plural(len(rows), 'pair')}. {wording.pair_counts(decisions)}",
        note=note,
        rows=table(("First photo", "Second photo", "Answer"), listed, "The answer of each pair"),
        actions=actions,
    )


def _look(row: Mapping[str, Any]) -> str:
    if not row["decision"]:
        return "warning"
    return "info" if row["strength"] == "weak" else row["decision"]
