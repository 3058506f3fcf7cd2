"""Faces as HTML: photos with numbered boxes, crops, what their quality is."""

from __future__ import annotations

from html import escape

from app import text
from app.ui.cards.markup import picture
from app.usecases.results import DetectedFace, Photo
from model.types import Quality


def boxed(caption: str, photo: Photo, longest: int = 640) -> str:
    """A photo with its faces in numbered boxes."""
    height, width = photo.image.shape[:2]
    size = max(width, height)
    boxes = []
    for face in photo.faces:
        left, top, right, bottom = face.face.box
        tag = size * 0.055
        label_top = top if top - tag < 0 else top - tag
        boxes.append(
            f'<rect class="fv-box" x="{left:.0f}" y="{top:.0f}" width="{right - left:.0f}" '
            f'height="{bottom - top:.0f}" stroke-width="{size / 160:.1f}"/>'
            f'<rect class="fv-box-tag" x="{left:.0f}" y="{label_top:.0f}" '
            f'width="{tag * (0.5 + 0.5 * len(str(face.number))):.0f}" height="{tag:.0f}"/>'
            f'<text class="fv-box-number" x="{left + tag * 0.22:.0f}" '
            f'y="{label_top + tag * 0.8:.0f}" font-size="{tag * 0.85:.0f}">{face.number}</text>'
        )
    found = text.plural(len(photo.faces), "face")
    return (
        f'<figure class="fv-photo"><svg viewBox="0 0 {width} {height}" role="img" '
        f'aria-label="{escape(caption)}: {found}, numbered from the largest">'
        f'<image href="{picture(photo.image, longest=longest)}" width="{width}" '
        f'height="{height}" preserveAspectRatio="none"/>{"".join(boxes)}</svg>'
        f"<figcaption>{escape(caption)}: {found}</figcaption></figure>"
    )


def crop(face: DetectedFace, label: str) -> str:
    """The aligned face, as the network sees it."""
    return (
        f'<img class="fv-crop" src="{picture(face.crop, longest=112, quality=90)}" '
        f'width="112" height="112" alt="{escape(label)}">'
    )


def quality_list(quality: Quality) -> str:
    """What is wrong with a face and what to do about it, or that nothing is."""
    if not quality.reasons:
        return '<p class="fv-good">Good photo: nothing to complain about.</p>'
    items = []
    for reason in quality.reasons:
        problem, stop, remedy = reason.message.partition(". ")
        items.append(f"<li><strong>{escape(problem + stop)}</strong>{escape(remedy)}</li>")
    return f'<ul class="fv-reasons">{"".join(items)}</ul>'
