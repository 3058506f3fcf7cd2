"""A photo with its faces in clickable boxes, labelled with names or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.labels import PADDING, TEXT, Area, arrange
from app.ui.cards.markup import picture, render
from app.usecases.results import DetectedFace, Photo
from model import wording

SCREENS = (("fv-at-desk", 1060, 560, 22.0), ("fv-on-phone", 320, 560, 17.0))
"""Where labels are read: class, largest picture shown, and a label's height, in CSS pixels."""

BESIDE_ANOTHER = 480
"""Largest width of a picture whose faces have no names, in CSS pixels: two are side by side."""


@dataclass(frozen=True)
class Name:
    """What a face is called: in words, and on its label, longest first, see :func:`arrange`."""

    title: str
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Box:
    """The box of one face, in pixels, clipped to the photo.

    Attributes:
        number: The face's number.
        title: What the face is called, for screen readers and as a tooltip.
        look: ``sure``, or ``doubt`` for a face in the background or an uncertain detection.
        area: The edges of the box.
    """

    number: int
    title: str
    look: str
    area: Area


def boxed(
    caption: str,
    photo: Photo,
    *,
    names: Mapping[int, Name] | None = None,
    act: str = "",
    longest: int = 900,
    data: Mapping[str, str] | None = None,
) -> Markup:
    """Render a photo with its faces in labelled boxes.

    Args:
        caption: The photo's caption.
        photo: The photo.
        names: What a face is called, by its number; by default the number itself.
        act: The action of a click on a box; empty if boxes are not clickable.
        longest: Longer side of the image sent, in pixels; 0 for boxes to lay over the photo.
        data: Extra data sent with a click.
    """
    height, width = photo.picture.shape[:2]
    sure = {each.number for each in photo.certain}
    if names is None:
        sure &= {each.number for each in photo.candidates}
    called = [
        (names or {}).get(each.number, Name(str(each.number), (str(each.number),)))
        for each in photo.faces
    ]
    boxes = [
        Box(
            number=each.number,
            title=name.title if each.number in sure else f"{name.title}, {describe(each)}",
            look="sure" if each.number in sure else "doubt",
            area=_clipped(each, width, height),
        )
        for each, name in zip(photo.faces, called, strict=True)
    ]
    areas, texts = [each.area for each in boxes], [each.texts for each in called]
    arranged = []
    for screen, wide, high, tall in SCREENS:
        shown = wide if names else min(wide, BESIDE_ANOTHER)
        scale = min(shown / width, high / height)
        found = arrange(areas, texts, width, height, tall / scale)
        placed = [
            (box, label) for box, label in zip(boxes, found.labels, strict=True) if label.text
        ]
        arranged.append((screen, found.height, placed))
    return render(
        "boxed.html",
        caption=caption, boxes=boxes, arranged=arranged, width=width, height=height, act=act,
        data=dict(data or {}), image=picture(photo.image, longest=longest) if longest else "",
        found=wording.plural(len(photo.faces), "face"), stroke=max(width, height) / 300,
        padding=PADDING, text=TEXT,
    )  # fmt: skip


def _clipped(found: DetectedFace, width: int, height: int) -> Area:
    left, top, right, bottom = found.face.box
    left, top = min(max(0.0, left), width - 1.0), min(max(0.0, top), height - 1.0)
    right, bottom = min(float(width), right), min(float(height), bottom)
    return left, top, max(left + 1, right), max(top + 1, bottom)


def describe(found: DetectedFace) -> str:
    """Say why a face is not a candidate."""
    return "a face in the background" if found.face.certain else "possibly also a face"
