"""Search: identify the faces in a photo among everyone enrolled, or report them as unknown."""

from __future__ import annotations

import time

import numpy as np

from app.context import Context
from app.usecases.pipeline import meant_faces, require_face
from app.usecases.results import Candidate, FaceSearch, Photo, Search
from model.errors import UnknownPerson
from model.types import Embedding, Match


def embed(context: Context, image: bytes) -> tuple[Photo, np.ndarray]:
    """Return the faces in a photo and their float32 unit vectors ``(N, D)``."""
    photo = context.pipeline.photo(image)
    require_face(photo, "the photo")
    return photo, context.pipeline.embed(photo.faces)


def search(
    context: Context,
    image: bytes,
    *,
    top: int = 5,
    target_fpir: float | None = None,
    face: int | None = None,
) -> Search:
    """Identify the faces in a photo; see :meth:`app.service.FaceService.search`."""
    started = time.perf_counter()
    target = context.settings.target_fpir if target_fpir is None else target_fpir
    calibration = context.need_calibration()
    photo = context.pipeline.photo(image)
    require_face(photo, "the photo")
    faces = photo.certain if face is None else meant_faces(photo, face, "the photo")
    queries = [
        Embedding(vector, context.bundle.model_id, found.quality.score)
        for found, vector in zip(faces, context.pipeline.embed(faces), strict=True)
    ]
    results = context.search.search_many(queries, top)
    met = results[0].strangers
    limit = calibration.search_threshold(met, target)

    def judged(match: Match) -> Candidate:
        chance = calibration.false_match_chance(match.score, met)
        known = match.score >= limit.threshold
        return Candidate(match, chance, known, _thumbnail(context, match))

    return Search(
        photo=photo,
        faces=tuple(
            FaceSearch(found, tuple(judged(match) for match in result.nearest))
            for found, result in zip(faces, results, strict=True)
        ),
        gallery_size=results[0].people,
        threshold=limit.threshold,
        target_fpir=target,
        supported=limit.supported,
        seconds=time.perf_counter() - started,
    )


def _thumbnail(context: Context, match: Match) -> bytes | None:
    if match.photo_id is None:
        return None
    try:
        return context.gallery.reader.thumbnail(match.photo_id)
    except UnknownPerson:  # removed since the search
        return None
