"""A photo with its faces in clickable boxes, labelled with names or numbers."""

from __future__ import annotations

import itertools
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.markup import picture, render
from app.usecases.results import DetectedFace, Photo
from model import wording

TAG = 0.036
"""Height of a label, as a fraction of the image's longer side."""

TEXT, PADDING = 0.82, 0.25
"""Font size of a label and the space on either side of its text, as fractions of its height."""

Area = tuple[float, float, float, float]
"""Left, top, right and bottom edges, in pixels of the image."""


@dataclass(frozen=True)
class Box:
    """The box of one face, in pixels, clipped to the photo.

    Attributes:
        number: The face's number.
        label: The text on the box; only its first word where the whole would cover something.
        title: The whole label in words, for screen readers.
        look: ``sure``, or ``doubt`` for a face in the background or an uncertain detection.
        left: Left edge of the box; likewise ``top``, ``width`` and ``height``.
        tag_left: Left edge of the label; likewise ``tag_top`` and ``tag_width``.
    """

    number: int
    label: str
    title: str
    look: str
    left: float
    top: float
    width: float
    height: float
    tag_left: float
    tag_top: float
    tag_width: float


def boxed(
    caption: str,
    photo: Photo,
    *,
    names: Mapping[int, str] | None = None,
    act: str = "",
    longest: int = 900,
    data: Mapping[str, str] | None = None,
) -> Markup:
    """Render a photo with its faces in labelled boxes.

    Args:
        caption: The photo's caption.
        photo: The photo.
        names: Label by face number; by default the number itself.
        act: The action of a click on a box; empty if boxes are not clickable.
        longest: Longer side of the image sent, in pixels.
        data: Extra data sent with a click.
    """
    height, width = photo.image.shape[:2]
    sure = {each.number for each in photo.certain} & {each.number for each in photo.candidates}
    if names is not None:
        sure = {each.number for each in photo.certain}
    tag = max(width, height) * TAG
    faces = {each.number: _clipped(each, width, height) for each in photo.faces}
    boxes: list[Box] = []
    for each in photo.faces:
        label = (names or {}).get(each.number, str(each.number))
        taken = [area for number, area in faces.items() if number != each.number]
        taken += [(box.tag_left, box.tag_top, box.tag_left + box.tag_width, box.tag_top + tag)
                  for box in boxes]  # fmt: skip
        boxes.append(_box(each, label, each.number in sure, width, height, tag, taken))
    return render(
        "boxed.html",
        caption=caption, boxes=boxes, width=width, height=height, tag=tag, act=act,
        data=dict(data or {}), image=picture(photo.image, longest=longest),
        found=wording.plural(len(photo.faces), "face"), stroke=max(width, height) / 220,
        text=tag * TEXT, padding=tag * PADDING,
    )  # fmt: skip


def _clipped(found: DetectedFace, width: int, height: int) -> Area:
    left, top, right, bottom = found.face.box
    left, top = max(0.0, left), max(0.0, top)
    right, bottom = min(float(width), right), min(float(height), bottom)
    return left, top, max(left + 1, right), max(top + 1, bottom)


def _box(
    found: DetectedFace, label: str, sure: bool, width: int, height: int, tag: float,
    taken: list[Area],
) -> Box:  # fmt: skip
    """Build a box clipped to the image, with its label at the first place that covers nothing."""
    left, top, right, bottom = _clipped(found, width, height)
    above = top - tag if top >= tag else top
    below = bottom if bottom + tag <= height else bottom - tag
    places = itertools.product((label, label.split(" ")[0]), (above, below), (False, True))
    for words, tag_top, flush_right in places:
        tag_width = min(float(width), tag * (2 * PADDING + TEXT * _letters(words)))
        tag_left = min(left, width - tag_width)
        if flush_right:
            tag_left = max(0.0, right - tag_width)
        if not any(
            tag_left < area[2] and area[0] < tag_left + tag_width
            and tag_top < area[3] and area[1] < tag_top + tag
            for area in taken
        ):  # fmt: skip
            break
    else:
        tag_left, tag_top = min(left, width - tag_width), above
    return Box(
        number=found.number,
        label=words,
        title=label if sure else f"{label}, {describe(found)}",
        look="sure" if sure else "doubt",
        left=left,
        top=top,
        width=right - left,
        height=bottom - top,
        tag_left=tag_left,
        tag_top=tag_top,
        tag_width=tag_width,
    )


def _letters(words: str) -> float:
    """Estimate the width of bold text in font sizes; the SVG fits the text to it exactly."""
    return sum(
        0.34 if each in " iljtfrI.,:;'|()[]!" else
        0.95 if each in "mwMW@%…" or unicodedata.east_asian_width(each) in "WF" else
        0.72 if each.isupper() else 0.62
        for each in words
    )  # fmt: skip


def describe(found: DetectedFace) -> str:
    """Say why a face is not a candidate."""
    return "a face in the background" if found.face.certain else "possibly also a face"
