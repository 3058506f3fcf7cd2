"""How small and how far rolled a face may be and still be found where it is."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from PIL import Image

from model.faces.detect import Detector, main_face
from model.types import Face
from tests.bench.photos.framing import OFF

SIDES = (20, 24, 32, 48)
"""Shorter sides of a face's box in pixels."""

ROLLS = (15, 30, 45, 60, 90, 135, 180)
"""Degrees; one half of the photos is turned left, the other right."""


def smaller(image: np.ndarray, face: Face, side: float) -> tuple[np.ndarray, np.ndarray]:
    """The picture shrunk until the face's box has this shorter side, and the landmarks in it."""
    left, top, right, bottom = face.box
    scale = side / min(right - left, bottom - top)
    height, width = (round(length * scale) for length in image.shape[:2])
    small = Image.fromarray(image).resize((width, height), Image.Resampling.LANCZOS)
    return np.asarray(small), face.landmarks * scale


def rolled(image: np.ndarray, face: Face, degrees: float) -> tuple[np.ndarray, np.ndarray]:
    """The picture turned counter-clockwise, black in its new corners, and the landmarks in it."""
    turned = Image.fromarray(image).rotate(degrees, Image.Resampling.BICUBIC)
    cos, sin = math.cos(math.radians(degrees)), math.sin(math.radians(degrees))
    centre = np.array([image.shape[1], image.shape[0]]) / 2
    return np.asarray(turned), (face.landmarks - centre) @ np.array([[cos, -sin], [sin, cos]]) + (
        centre
    )


def finding_rows(detector: Detector, photos: list[tuple[np.ndarray, Face]]) -> Iterator[str]:
    """One line for each size and roll: how many are found, certain, and where they are."""
    yield f"{'':22} {'certain':>8} {'doubtful':>9} {'no face':>8} {'landmarks off':>14}"
    for side in SIDES:
        changed = [smaller(image, face, side) for image, face in photos]
        yield _row(f"{side} pixels", detector, changed)
    for degrees in ROLLS:
        changed = [
            rolled(image, face, degrees * (-1) ** number)
            for number, (image, face) in enumerate(photos)
        ]
        yield _row(f"rolled by {degrees} degrees", detector, changed)


def _row(name: str, detector: Detector, photos: list[tuple[np.ndarray, np.ndarray]]) -> str:
    certain = doubtful = off = 0
    for image, landmarks in photos:
        faces = detector.detect(image)
        if not faces:
            continue
        face = main_face(faces, image.shape)
        certain += face.certain
        doubtful += not face.certain
        moved = np.linalg.norm(face.landmarks - landmarks, axis=1).max()
        off += moved >= OFF * face.area**0.5
    lost = len(photos) - certain - doubtful
    shares = (count / len(photos) for count in (certain, doubtful, lost))
    columns = "{:8.1%} {:9.1%} {:8.1%}".format(*shares)
    return f"{name:22} {columns} {off / max(certain + doubtful, 1):14.1%}"
