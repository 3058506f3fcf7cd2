"""Draw detected faces onto a picture: boxes, landmarks, numbers and reason codes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from model.types import Face, Quality

GOOD = (26, 140, 78)
POOR = (200, 80, 10)
WHITE = (255, 255, 255)


def annotate(
    image: np.ndarray, faces: Sequence[Face], qualities: Sequence[Quality] = ()
) -> np.ndarray:
    """Draw faces, numbered from 1 in the order given.

    Args:
        image: uint8 array ``(H, W, 3)``.
        qualities: One quality per face, or empty to draw no scores and reasons.

    Returns:
        A copy of ``image``. Faces without quality problems get green boxes; the others get orange
        boxes with their reason codes below.

    Raises:
        ValueError: ``qualities`` is not empty and its length differs from that of ``faces``.
    """
    if qualities and len(qualities) != len(faces):
        raise ValueError(f"{len(faces)} faces but {len(qualities)} qualities were given.")
    picture = Image.fromarray(image)
    draw = ImageDraw.Draw(picture)
    side = max(picture.size)
    line = max(1, round(side / 400))
    font = ImageFont.load_default(size=max(10, side / 50))
    for number, face in enumerate(faces, start=1):
        reasons = qualities[number - 1].reasons if qualities else ()
        colour = POOR if reasons else GOOD
        left, top, right, bottom = (round(value) for value in face.box)
        draw.rectangle((left, top, right, bottom), outline=colour, width=2 * line)
        radius = max(1.0, (right - left) / 36)
        for x, y in face.landmarks.tolist():
            spot = (x - radius, y - radius, x + radius, y + radius)
            draw.ellipse(spot, fill=WHITE, outline=colour, width=max(1, round(radius / 3)))
        title = f"{number}  {qualities[number - 1].score:.2f}" if qualities else f"{number}"
        _label(draw, (left, top), [title], font, colour, above=True)
        _label(draw, (left, bottom), [reason.code for reason in reasons], font, colour)
    return np.array(picture)


def _label(
    draw: ImageDraw.ImageDraw,
    corner: tuple[int, int],
    lines: Sequence[str],
    font: ImageFont.FreeTypeFont | ImageFont.ImageFont,
    colour: tuple[int, int, int],
    *,
    above: bool = False,
) -> None:
    """Write lines on a filled rectangle at a corner of a box, shifted to stay in the picture."""
    if not lines:
        return
    text = "\n".join(lines)
    _, _, _, line = draw.textbbox((0, 0), "X", font=font)
    pad = max(2, round(line / 5))
    _, _, width, height = draw.multiline_textbbox((0, 0), text, font=font)
    width, height = width + 2 * pad, height + 2 * pad
    picture_width, picture_height = draw.im.size
    x = min(max(0, corner[0]), max(0, picture_width - width))
    y = corner[1] - height if above else corner[1]
    y = min(max(0, y), max(0, picture_height - height))
    draw.rectangle((x, y, x + width, y + height), fill=colour)
    draw.multiline_text((x + pad, y + pad), text, font=font, fill=WHITE)
