"""Review the gallery: find entries that may be the same person, and photos of someone else."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from app.context import Context
from app.usecases.progress import Progress, stop_if_asked
from index.types import Person
from model.errors import UnknownPerson
from model.types import Embedding, Verdict

CHUNK = 500
"""People processed at a time."""

MOST = 200
"""Most findings of each kind that are listed."""


@dataclass(frozen=True)
class Likeness:
    """Two people of the gallery and the verdict on them."""

    first: Person
    second: Person
    verdict: Verdict


@dataclass(frozen=True)
class OddPhoto:
    """A photo unlike the other photos of its person.

    Attributes:
        score: Median score against the person's other photos.
    """

    person: Person
    photo_id: str
    score: float


@dataclass(frozen=True)
class Review:
    """The findings: most similar duplicates first, lowest-scoring photos first."""

    duplicates: tuple[Likeness, ...]
    odd: tuple[OddPhoto, ...]


def alike(context: Context, first: str, second: str) -> Likeness:
    """Compare two people by the mean score of their photos.

    Raises:
        UnknownPerson: One of them does not exist or has no photo.
    """
    people = context.gallery.reader.get(first), context.gallery.reader.get(second)
    rows = [context.gallery.changes.vectors_of_people([each]).vectors for each in (first, second)]
    if not all(len(each) for each in rows):
        raise UnknownPerson("There is no photo to compare by.")
    score = float((rows[0].astype(np.float32) @ rows[1].astype(np.float32).T).mean())
    return Likeness(*people, _decide(context, score))


def most_alike(context: Context, person_id: str, most: int) -> list[str]:
    """Return the ids of the other people most similar to a person, most similar first."""
    held = context.gallery.changes.vectors_of_people([person_id])
    if not len(held):
        return []
    query = Embedding(_mean(held.vectors.astype(np.float32)), context.bundle.model_id)
    (found,) = context.search.search_many([query], k=most + 1)
    return [each.person_id for each in found.nearest if each.person_id != person_id][:most]


def odd_photos(context: Context, person_id: str) -> dict[str, float]:
    """Return a person's photos that are unlike the others: median score by photo id."""
    if context.calibration is None:
        return {}
    held = context.gallery.changes.vectors_of_people([person_id])
    return _odd(held.ids, held.vectors.astype(np.float32), _decide(context, 0.0).reject_below)


def review(
    context: Context,
    progress: Progress | None = None,
    cancel: threading.Event | None = None,
) -> Review:
    """Review the whole gallery by the calibrated thresholds.

    Two entries may be the same person if a search for one returns the other as known.

    Raises:
        Cancelled: ``cancel`` was set.
    """
    limit = _decide(context, 0.0).reject_below
    total = context.gallery.reader.count()
    pairs: dict[tuple[str, str], float] = {}
    odd: list[OddPhoto] = []
    done = 0
    for people in _chunks(context):
        stop_if_asked(cancel, "Stopped before everyone was looked at.")
        if progress:
            progress("Looking at everyone", done, total)
        done += len(people)
        held = context.gallery.changes.vectors_of_people([each.id for each in people])
        owners, vectors = np.array(held.people), held.vectors.astype(np.float32)
        seen = [person for person in people if (owners == person.id).any()]
        means = []
        for person in seen:
            mine = owners == person.id
            means.append(_mean(vectors[mine]))
            found = _odd(held.ids[mine], vectors[mine], limit)
            odd += [OddPhoto(person, photo, score) for photo, score in found.items()]
        pairs |= _look_alikes(context, seen, means)
    best = sorted(pairs, key=lambda pair: -pairs[pair])[:MOST]
    odd.sort(key=lambda each: each.score)
    return Review(tuple(alike(context, *pair) for pair in best), tuple(odd[:MOST]))


def _look_alikes(
    context: Context, people: list[Person], means: list[np.ndarray]
) -> dict[tuple[str, str], float]:
    """Return pairs of entries that match each other in a search, with their score."""
    calibration, target = context.need_calibration(), context.settings.target_fpir
    queries = [Embedding(mean, context.bundle.model_id) for mean in means]
    pairs = {}
    for person, result in zip(people, context.search.search_many(queries, k=3), strict=True):
        needed = calibration.search_threshold(result.strangers, target).threshold
        for match in result.nearest:
            if match.person_id != person.id and match.score >= needed:
                first, second = sorted((person.id, match.person_id))
                pairs[first, second] = match.score
    return pairs


def _mean(vectors: np.ndarray) -> np.ndarray:
    """Return the normalized mean of unit vectors, float32 ``(D,)``."""
    mean = vectors.mean(axis=0)
    return (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)


def _chunks(context: Context) -> Iterator[list[Person]]:
    everyone = iter(context.gallery.reader.iter_people())
    while people := list(islice(everyone, CHUNK)):
        yield people


def _odd(ids: np.ndarray, vectors: np.ndarray, limit: float) -> dict[str, float]:
    """Return the photos whose median score against the others is below the limit."""
    if len(ids) < 2:
        return {}
    scores = vectors @ vectors.T
    medians = [float(np.median(np.delete(row, place))) for place, row in enumerate(scores)]
    return {
        str(photo): median for photo, median in zip(ids, medians, strict=True) if median < limit
    }


def _decide(context: Context, score: float) -> Verdict:
    return context.need_calibration().decide(
        float(np.clip(score, -1, 1)), context.settings.target_fmr
    )
