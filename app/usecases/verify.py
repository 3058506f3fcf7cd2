"""Verify: do two photos show the same person? One verdict, or one per pair of candidate faces."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass

import numpy as np

from app.context import Context
from app.usecases.pipeline import meant_faces
from app.usecases.progress import Progress, stop_if_asked
from app.usecases.results import (
    ChoiceNeeded,
    Compared,
    DetectedFace,
    PairVerdict,
    Photo,
    Verification,
)
from model.errors import BadImage

PATCH = 28
STRIDE = 14
BATCH = 16


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which regions of two crops carry their similarity.

    Attributes:
        score: Cosine similarity of the untouched crops.
        map_a: float32 ``(112, 112)``: drop of the score when this region of the first crop is
            greyed out; negative where the region counts against a match.
        map_b: The same for the second crop.
    """

    score: float
    map_a: np.ndarray
    map_b: np.ndarray


def verify(
    context: Context,
    image_a: bytes,
    image_b: bytes,
    *,
    target_fmr: float | None = None,
    prior: float | None = None,
    face_a: int | None = None,
    face_b: int | None = None,
) -> Verification:
    """Compare two photos; see :meth:`app.service.FaceService.verify`."""
    started = time.perf_counter()
    first, second = "the first photo", "the second photo"
    photo_a, photo_b = _photo(context, image_a, first), _photo(context, image_b, second)
    faces_a = meant_faces(photo_a, face_a, first)
    faces_b = meant_faces(photo_b, face_b, second)
    pairs = compare(context, faces_a, faces_b, target_fmr=target_fmr, prior=prior)
    seconds = time.perf_counter() - started
    if len(pairs) > 1:
        return ChoiceNeeded(pairs, photo_a, photo_b, seconds)
    return Compared(
        verdict=pairs[0].verdict,
        face_a=faces_a[0],
        face_b=faces_b[0],
        photo_a=photo_a,
        photo_b=photo_b,
        same_file=faces_a[0].number == faces_b[0].number
        and (image_a == image_b or _same_pixels(photo_a, photo_b, pairs[0].verdict.score)),
        seconds=seconds,
    )


def _same_pixels(photo_a: Photo, photo_b: Photo, score: float) -> bool:
    """Compare two photos pixel by pixel, unless their size or faces already differ."""
    return (
        photo_a.picture.shape == photo_b.picture.shape
        and score > 0.99
        and np.array_equal(photo_a.image, photo_b.image)
    )


def _photo(context: Context, image: bytes, which: str) -> Photo:
    """Decode a photo and find its faces; errors name the photo."""
    try:
        return context.pipeline.photo(image)
    except BadImage as error:
        message = f"{which.capitalize()} cannot be used. {error.message}"
        raise type(error)(message, photo=which, **error.details) from error


def compare(
    context: Context,
    faces_a: tuple[DetectedFace, ...],
    faces_b: tuple[DetectedFace, ...],
    *,
    target_fmr: float | None = None,
    prior: float | None = None,
) -> tuple[PairVerdict, ...]:
    """Compare every face of one photo with every face of the other, highest score first."""
    calibration = context.need_calibration()
    target = context.settings.target_fmr if target_fmr is None else target_fmr
    vectors = context.pipeline.embed([*faces_a, *faces_b])
    scores = np.clip(vectors[: len(faces_a)] @ vectors[len(faces_a) :].T, -1, 1)
    pairs = [
        PairVerdict(
            a.number,
            b.number,
            calibration.decide(
                float(scores[row, column]),
                target,
                quality=min(a.quality.score, b.quality.score),
                prior=prior,
            ),
        )
        for row, a in enumerate(faces_a)
        for column, b in enumerate(faces_b)
    ]
    return tuple(sorted(pairs, key=lambda pair: -pair.verdict.score))


def occlusion_map(
    context: Context,
    crop_a: np.ndarray,
    crop_b: np.ndarray,
    *,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Evidence:
    """Grey out one region after another; see :meth:`app.service.FaceService.occlusion_map`."""
    report = progress or (lambda stage, done, total: None)
    places = [
        (top, left)
        for top in range(0, crop_a.shape[0] - PATCH + STRIDE, STRIDE)
        for left in range(0, crop_a.shape[1] - PATCH + STRIDE, STRIDE)
    ]
    embed = context.pipeline.embedder.embed
    vector_a, vector_b = embed([crop_a, crop_b])
    score = float(vector_a @ vector_b)
    maps = []
    for number, (crop, other) in enumerate(((crop_a, vector_b), (crop_b, vector_a))):
        drops = []
        for start in range(0, len(places), BATCH):
            stop_if_asked(cancel, "Stopped before every region was covered.")
            done = number * len(places) + start
            report("Covering one region after another", done, 2 * len(places))
            covered = _covered(crop, places[start : start + BATCH])
            drops.append(score - embed(covered) @ other)
        maps.append(_spread(np.concatenate(drops), places, crop.shape[:2]))
    return Evidence(score, *maps)


def _covered(crop: np.ndarray, places: list[tuple[int, int]]) -> np.ndarray:
    """Return one copy of the crop per place, with that patch filled with the mean colour."""
    covered = np.repeat(crop[None], len(places), axis=0)
    for picture, (top, left) in zip(covered, places, strict=True):
        picture[top : top + PATCH, left : left + PATCH] = crop.mean((0, 1)).astype(np.uint8)
    return covered


def _spread(drops: np.ndarray, places: list[tuple[int, int]], shape: tuple[int, ...]) -> np.ndarray:
    """Return, for each pixel, the mean drop over the patches that cover it."""
    total, count = np.zeros(shape, np.float32), np.zeros(shape, np.float32)
    for drop, (top, left) in zip(drops, places, strict=True):
        total[top : top + PATCH, left : left + PATCH] += drop
        count[top : top + PATCH, left : left + PATCH] += 1
    return total / count
