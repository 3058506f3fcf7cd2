"""Results as HTML, by Jinja2 templates that escape every word from outside."""

from __future__ import annotations

import base64
import io
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import jinja2
import numpy as np
from markupsafe import Markup
from PIL import Image

from model import wording

TEMPLATES = Path(__file__).parents[1] / "templates"

ICONS: dict[str, str] = {
    "same": "M5 12.5l4.5 4.5L19 7.5",
    "different": "M6.5 6.5l11 11M17.5 6.5l-11 11",
    "inconclusive": "M9 9.2a3 3 0 1 1 4.4 2.6c-1 .6-1.4 1.1-1.4 2.2M12 17.6v.1",
    "warning": "M12 7.5v5.5M12 16.6v.1",
    "info": "M12 11v5.5M12 7.4v.1",
}


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


def day(seconds: float) -> str:
    """Seconds since the epoch as a date, or a dash."""
    return time.strftime("%Y-%m-%d", time.localtime(seconds)) if seconds else "–"


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    made.globals |= {
        "wording": wording, "ICONS": ICONS, "picture": picture, "data_address": data_address,
        "day": day,
    }  # fmt: skip
    return made


_JINJA = _environment()


def render(template: str, **values: object) -> Markup:
    """A template of the page with its values; whatever is no ``Markup`` is escaped."""
    return Markup(_JINJA.get_template(template).render(**values))


def _macro(name: str, *values: object, **options: object) -> Markup:
    return Markup(getattr(_JINJA.get_template("macros.html").module, name)(*values, **options))


def icon(name: str) -> Markup:
    """A round badge with a sign in it; decoration beside words that say the same."""
    return _macro("icon", name)


def chip(kind: str, words: str) -> Markup:
    """A short word in its colour, with its sign."""
    return _macro("chip", kind, words)


def message(kind: str, title: str, body: str = "") -> Markup:
    """A notice: ``info`` or ``warning``. Title and body are plain text."""
    return _macro("message", kind, title, body)


def thumbnail(jpeg: bytes | None, label: str) -> Markup:
    """A stored thumbnail, or an empty place of the same size."""
    return _macro("thumbnail", jpeg, label)


def placeholder(words: str) -> Markup:
    """What stands where a result will appear."""
    return Markup('<div class="fv-empty">{}</div>').format(words)


def live(content: str) -> Markup:
    """A result, ready markup, that screen readers announce when it changes."""
    return Markup('<div class="fv-stack" role="status" aria-live="polite">{}</div>').format(
        Markup(content)
    )


def progress_bar(stage: str, done: int, total: int) -> Markup:
    """How far long work is."""
    return live(_macro("progress_bar", stage, done, total))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> Markup:
    """A table, scrollable; on a phone each row becomes a small list with its headings."""
    return _macro("table", headings, list(rows), label)
