"""Sample photos to try the app with; their sources are in ``sample_photos/SOURCES.md``.

There is one photo per person. The second photo of a "same person" example is derived from the
first, and its label says so.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from PIL import Image, ImageEnhance, ImageOps

from app.usecases.results import Upload

FOLDER = Path(__file__).with_name("sample_photos")


@dataclass(frozen=True)
class Sample:
    """One example that a visitor can click."""

    name: str
    photos: tuple[Upload, ...]


def collins() -> Upload:
    return Upload("eileen_collins.jpg", (FOLDER / "eileen_collins.jpg").read_bytes())


def hopper() -> Upload:
    return Upload("grace_hopper.jpg", (FOLDER / "grace_hopper.jpg").read_bytes())


def altered(upload: Upload) -> Upload:
    """Return the same photo mirrored, tilted, darker and a fifth smaller."""

    def change(photo: Image.Image) -> Image.Image:
        photo = ImageOps.mirror(photo).rotate(6, Image.Resampling.BICUBIC)
        photo = ImageEnhance.Brightness(photo).enhance(0.75)
        return photo.resize((photo.width * 4 // 5, photo.height * 4 // 5))

    stem = upload.name.rsplit(".", 1)[0]
    return Upload(f"{stem}_altered.jpg", _edit(upload.data, change))


def together() -> Upload:
    """Return one photo that shows both people."""
    left, right = (Image.open(io.BytesIO(each().data)) for each in (collins, hopper))
    right = right.resize((right.width * left.height // right.height, left.height))
    both = Image.new("RGB", (left.width + right.width, left.height))
    both.paste(left, (0, 0))
    both.paste(right, (left.width, 0))
    return Upload("two_people.jpg", _jpeg(both))


@cache
def pairs() -> tuple[Sample, ...]:
    """Return the examples with two photos to compare."""
    return (
        Sample("One person, second photo altered", (collins(), altered(collins()))),
        Sample("Two people", (collins(), hopper())),
        Sample("Several faces", (together(), hopper())),
    )


@cache
def singles() -> tuple[Sample, ...]:
    return (
        Sample("Eileen Collins", (collins(),)),
        Sample("Grace Hopper", (hopper(),)),
        Sample("Both in one picture", (together(),)),
    )


def _edit(data: bytes, change: Callable[[Image.Image], Image.Image]) -> bytes:
    return _jpeg(change(Image.open(io.BytesIO(data)).convert("RGB")))


def _jpeg(photo: Image.Image) -> bytes:
    buffer = io.BytesIO()
    photo.save(buffer, "JPEG", quality=90)
    return buffer.getvalue()
