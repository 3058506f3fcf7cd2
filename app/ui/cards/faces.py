"""A photo with its faces in clickable boxes, labelled with names or numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from markupsafe import Markup

from app.ui.cards.markup import picture, render
from app.usecases.results import DetectedFace, Photo
from model import wording

TAG = 0.042
"""Height of a label, as a fraction of the image's longer side."""

LETTER = 0.56
"""Width of a letter, as a fraction of its height."""


@dataclass(frozen=True)
class Box:
    """The box of one face, in pixels, clipped to the photo.

    Attributes:
        number: The face's number.
        label: The text on the box.
        title: The same in words, for screen readers.
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
    boxes = [
        _box(each, (names or {}).get(each.number, str(each.number)), each.number in sure,
             width, height, tag)
        for each in photo.faces
    ]  # fmt: skip
    return render(
        "boxed.html",
        caption=caption, boxes=boxes, width=width, height=height, tag=tag, act=act,
        data=dict(data or {}), image=picture(photo.image, longest=longest),
        found=wording.plural(len(photo.faces), "face"), stroke=max(width, height) / 220,
    )  # fmt: skip


def _box(
    found: DetectedFace, label: str, sure: bool, width: int, height: int, tag: float
) -> Box:  # fmt: skip
    """Build a box clipped to the image, with its label above or inside, never outside the image."""
    left, top, right, bottom = found.face.box
    left, right = max(0.0, left), min(float(width), right)
    top, bottom = max(0.0, top), min(float(height), bottom)
    tag_width = min(float(width), tag * (0.5 + LETTER * len(label)))
    return Box(
        number=found.number,
        label=label,
        title=label if sure else f"{label}, {describe(found)}",
        look="sure" if sure else "doubt",
        left=left,
        top=top,
        width=max(1.0, right - left),
        height=max(1.0, bottom - top),
        tag_left=min(max(0.0, left), width - tag_width),
        tag_top=top - tag if top >= tag else top,
        tag_width=tag_width,
    )


def describe(found: DetectedFace) -> str:
    """Say why a face is not a candidate."""
    return "a face in the background" if found.face.certain else "possibly also a face"


def others(photo: Photo) -> str:
    """Return a sentence about the faces that were ignored; empty if there are none."""
    shown = {each.number for each in photo.candidates}
    rest = [each for each in photo.faces if each.number not in shown]
    behind = sum(each.face.certain for each in rest)
    doubtful = len(rest) - behind
    parts = []
    if behind:
        parts.append(wording.plural(behind, "small face in the background",
                                    "small faces in the background"))  # fmt: skip
    if doubtful:
        parts.append(f"{wording.plural(doubtful, 'spot')} that may also be a face")
    return f"Not taken into account: {' and '.join(parts)}." if parts else ""
