"""Results as HTML cards. Every word that came from outside is escaped here and nowhere else."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable, Sequence
from html import escape

import numpy as np
from PIL import Image

ICONS: dict[str, str] = {
    "same": "M5 12.5l4.5 4.5L19 7.5",
    "different": "M6.5 6.5l11 11M17.5 6.5l-11 11",
    "inconclusive": "M9 9.2a3 3 0 1 1 4.4 2.6c-1 .6-1.4 1.1-1.4 2.2M12 17.6v.1",
    "warning": "M12 7.5v5.5M12 16.6v.1",
    "info": "M12 11v5.5M12 7.4v.1",
}


def icon(name: str) -> str:
    """A round badge with a sign in it; decoration beside words that say the same."""
    return (
        f'<svg class="fv-icon fv-{name}" viewBox="0 0 24 24" aria-hidden="true">'
        f'<circle cx="12" cy="12" r="11"/><path d="{ICONS[name]}"/></svg>'
    )


def picture(image: np.ndarray, *, longest: int, quality: int = 82) -> str:
    """A picture, uint8 ``(H, W, 3)``, as a ``data:`` address: it is in no file and at no URL."""
    small = Image.fromarray(image)
    small.thumbnail((longest, longest))
    return encoded(small, quality)


def encoded(image: Image.Image, quality: int = 82) -> str:
    """A picture of its own size as a ``data:`` address."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return data_address(buffer.getvalue())


def data_address(encoded: bytes, kind: str = "jpeg") -> str:
    """An encoded picture as a ``data:`` address."""
    return f"data:image/{kind};base64," + base64.b64encode(encoded).decode()


def message(kind: str, title: str, body: str = "") -> str:
    """A notice: ``info`` or ``warning``. Title and body are plain text."""
    role = "alert" if kind == "warning" else "status"
    words = f"<p>{escape(body)}</p>" if body else ""
    return (
        f'<div class="fv-card fv-notice fv-{kind}" role="{role}">{icon(kind)}'
        f"<div><p><strong>{escape(title)}</strong></p>{words}</div></div>"
    )


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table of plain text cells, scrollable on a phone."""
    return raw_table(headings, [[escape(cell) for cell in row] for row in rows], label)


def raw_table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> str:
    """A table of ready markup; on a phone each row becomes a small list with its headings."""
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "".join(
        "<tr>"
        + "".join(
            f'<td data-label="{escape(heading)}">{cell}</td>'
            for heading, cell in zip(headings, row, strict=True)
        )
        + "</tr>"
        for row in rows
    )
    return (
        f'<div class="fv-scroll" tabindex="0" role="region" aria-label="{escape(label)}">'
        f'<table class="fv-table"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'
    )
