"""Look over the gallery: entries that may be one person, photos that may be of somebody else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from app.context import Context
from app.usecases.progress import Progress
from index.types import Person
from model.errors import UnknownPerson
from model.types import Embedding, Verdict

CHUNK = 500
"""People looked at in one go."""

MOST = 200
"""Findings of each kind that are listed."""


@dataclass(frozen=True)
class Likeness:
    """Two entries of the gallery and how alike they are."""

    first: Person
    second: Person
    verdict: Verdict


@dataclass(frozen=True)
class OddPhoto:
    """A photo that does not look like the others of its person.

    Attributes:
        person: Whose record it is in.
        photo_id: The photo.
        score: Median score against the person's other photos.
    """

    person: Person
    photo_id: str
    score: float


@dataclass(frozen=True)
class Review:
    """What was found: likeliest duplicates first, oddest photos first."""

    duplicates: tuple[Likeness, ...]
    odd: tuple[OddPhoto, ...]


def alike(context: Context, first: str, second: str) -> Likeness:
    """How alike two entries are, by the mean score of their photos.

    Raises:
        UnknownPerson: One of them is not there, or has no photo.
    """
    people = context.gallery.reader.get(first), context.gallery.reader.get(second)
    rows = [context.gallery.changes.vectors_of_people([each]).vectors for each in (first, second)]
    if not all(len(each) for each in rows):
        raise UnknownPerson("There is no photo to compare by.")
    score = float((rows[0].astype(np.float32) @ rows[1].astype(np.float32).T).mean())
    return Likeness(*people, _decide(context, score))


def most_alike(context: Context, person_id: str, most: int) -> list[str]:
    """Ids of the other people who look most like a person, likeliest first."""
    held = context.gallery.changes.vectors_of_people([person_id])
    if not len(held):
        return []
    query = Embedding(_mean(held.vectors.astype(np.float32)), context.bundle.model_id)
    (found,) = context.search.search_many([query], k=most + 1)
    return [each.person_id for each in found.nearest if each.person_id != person_id][:most]


def odd_photos(context: Context, person_id: str) -> dict[str, float]:
    """Photos of a person that are unlike the others, by id, with their median score."""
    if context.calibration is None:
        return {}
    held = context.gallery.changes.vectors_of_people([person_id])
    return _odd(held.ids, held.vectors.astype(np.float32), _decide(context, 0.0).reject_below)


def review(context: Context, progress: Progress | None = None) -> Review:
    """Look over the whole gallery by the calibrated rule.

    Two entries may be one person when one would be found in the place of the other by a search.
    """
    limit = _decide(context, 0.0).reject_below
    total = context.gallery.reader.count()
    pairs: dict[tuple[str, str], float] = {}
    odd: list[OddPhoto] = []
    done = 0
    for people in _chunks(context):
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
    """Pairs of entries that a search takes for each other, with their score."""
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
    """The unit vector in the middle of some, float32 ``(D,)``."""
    mean = vectors.mean(axis=0)
    return (mean / max(float(np.linalg.norm(mean)), 1e-9)).astype(np.float32)


def _chunks(context: Context) -> Iterator[list[Person]]:
    everyone = iter(context.gallery.reader.iter_people())
    while people := list(islice(everyone, CHUNK)):
        yield people


def _odd(ids: np.ndarray, vectors: np.ndarray, limit: float) -> dict[str, float]:
    """Photos whose median score against the others is below the limit."""
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
