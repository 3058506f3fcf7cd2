"""Degrade photos in known ways: cut close, small, compressed, blurred or dark.

Calibration photos are mostly good. Error rates on poorer photos are measured on degraded copies,
each by a random amount from a realistic range.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable

import numpy as np
from PIL import Image, ImageFilter

from model.types import Face

KINDS_VERSION = 1
"""Increase when a kind is made differently, so that cached copies are not reused."""

JPEG_QUALITY = 30


def close_box(image: np.ndarray, face: Face, margin: float) -> tuple[int, int, int, int]:
    """The face's box, enlarged on each side by ``margin`` of its size, within the picture."""
    left, top, right, bottom = face.box
    across, down = margin * (right - left), margin * (bottom - top)
    height, width = image.shape[:2]
    return (
        max(0, round(left - across)),
        max(0, round(top - down)),
        min(width, round(right + across)),
        min(height, round(bottom + down)),
    )


def close_up(image: np.ndarray, face: Face, margin: float) -> np.ndarray:
    """The picture cropped to :func:`close_box`."""
    left, top, right, bottom = close_box(image, face, margin)
    return np.ascontiguousarray(image[top:bottom, left:right])


def shrunk_to(image: np.ndarray, face: Face, eye_distance: float) -> np.ndarray:
    """The picture shrunk to ``eye_distance`` pixels between the eyes; never enlarged."""
    scale = min(1.0, eye_distance / _eye_distance(face))
    height, width = (max(1, round(side * scale)) for side in image.shape[:2])
    return np.asarray(Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS))


def compressed(image: np.ndarray, quality: int = JPEG_QUALITY) -> np.ndarray:
    buffer = io.BytesIO()
    Image.fromarray(image).save(buffer, "JPEG", quality=quality)
    return np.asarray(Image.open(buffer).convert("RGB"))


def blurred(image: np.ndarray, face: Face, radius: float) -> np.ndarray:
    """The picture after a Gaussian blur; ``radius`` as a share of the eye distance."""
    spread = radius * _eye_distance(face)
    return np.asarray(Image.fromarray(image).filter(ImageFilter.GaussianBlur(spread)))


def darkened(image: np.ndarray, light: float) -> np.ndarray:
    """The picture with its brightness multiplied by ``light``, rounded down to 8 bits."""
    return (image * light).astype(np.uint8)


Spoil = Callable[[np.ndarray, Face, np.random.Generator], np.ndarray]

SPOILED: dict[str, Spoil] = {
    "close": lambda image, face, rng: close_up(image, face, rng.uniform(0, 0.3)),
    "small": lambda image, face, rng: shrunk_to(image, face, 8 * 4 ** rng.uniform()),
    "jpeg": lambda image, face, rng: compressed(image),
    "blurred": lambda image, face, rng: blurred(image, face, rng.uniform(0.03, 0.12)),
    "dark": lambda image, face, rng: darkened(image, rng.uniform(0.1, 0.5)),
}
"""Kind of photo -> how to make one: margins of 0 to 30%, 8 to 32 pixels between the eyes, JPEG at
quality 30, a blur of 3 to 12% of the eye distance, 10 to 50% of the brightness."""

WHOLE = "whole"
KINDS = (WHOLE, *SPOILED)


def spoiled(image: np.ndarray, face: Face, kind: str, name: str) -> np.ndarray:
    """Degrade a photo by an amount seeded by its name; ``whole`` changes nothing."""
    if kind == WHOLE:
        return image
    return SPOILED[kind](image, face, np.random.default_rng(zlib.crc32(f"{kind} {name}".encode())))


def _eye_distance(face: Face) -> float:
    return float(np.linalg.norm(face.landmarks[1] - face.landmarks[0]))
