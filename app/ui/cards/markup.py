"""Render HTML with Jinja2 templates that escape all untrusted text."""

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
    """Encode an image, uint8 ``(H, W, 3)``, as a ``data:`` URL, so that no file is served."""
    small = Image.fromarray(image)
    small.thumbnail((longest, longest))
    return encoded(small, quality)


def encoded(image: Image.Image, quality: int = 82) -> str:
    """Encode an image at its original size as a ``data:`` URL."""
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return data_address(buffer.getvalue())


def data_address(encoded: bytes, kind: str = "jpeg") -> str:
    """Return an encoded image as a ``data:`` URL."""
    return f"data:image/{kind};base64," + base64.b64encode(encoded).decode()


def day(seconds: float) -> str:
    """Format seconds since the epoch as a date, or a dash."""
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
    """Render a template; every value that is not ``Markup`` is escaped."""
    return Markup(_JINJA.get_template(template).render(**values))


def _macro(name: str, *values: object, **options: object) -> Markup:
    return Markup(getattr(_JINJA.get_template("macros.html").module, name)(*values, **options))


def icon(name: str) -> Markup:
    """Return a round icon; decorative only, because the text beside it says the same."""
    return _macro("icon", name)


def chip(kind: str, words: str) -> Markup:
    """Return a short coloured label with an icon."""
    return _macro("chip", kind, words)


def message(kind: str, title: str, body: str = "") -> Markup:
    """Return a notice of kind ``info`` or ``warning``. Title and body are plain text."""
    return _macro("message", kind, title, body)


def thumbnail(jpeg: bytes | None, label: str) -> Markup:
    """Return a stored thumbnail, or an empty box of the same size."""
    return _macro("thumbnail", jpeg, label)


def placeholder(words: str) -> Markup:
    """Return the text shown where a result will appear."""
    return Markup('<div class="fv-empty">{}</div>').format(words)


def live(content: str) -> Markup:
    """Wrap HTML in a live region, which screen readers announce when it changes."""
    return Markup('<div class="fv-stack" role="status" aria-live="polite">{}</div>').format(
        Markup(content)
    )


def progress_bar(stage: str, done: int, total: int) -> Markup:
    return live(_macro("progress_bar", stage, done, total))


def table(headings: Sequence[str], rows: Iterable[Sequence[str]], label: str) -> Markup:
    """Return a scrollable table; on a phone each row becomes a list with headings."""
    return _macro("table", headings, list(rows), label)
