"""Checks before enrollment: duplicates, conflicts with other people, outliers, poor quality."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from index.crypto.keys import name_key
from index.search import PeopleSearch
from index.types import NewPhoto

_SAME_FACE = 0.999
"""Cosine above which two faces from one file are the same face. Rounding stored vectors to float16
changes it by less than 1e-6, and two engines of one model may differ by 1e-4. Two people in a group
photo, even twins, score far lower."""

FindingCode = Literal["same_photo", "other_name", "already_enrolled", "outlier", "poor_quality"]


@dataclass(frozen=True)
class Finding:
    """One problem found by the checks.

    Attributes:
        code: ``same_photo``: the same face of the same file is already stored, or given twice.
            ``other_name``: the face matches a person with another name.
            ``already_enrolled``: the face matches a person with the same name.
            ``outlier``: the face does not look like the person's other photos.
            ``poor_quality``: the quality of the face is too low.
        photo: Index of the photo in the input, from 0.
        score: The measured similarity or quality, if any.
        limit: The limit that the score was compared with.
        person_id: The person that the photo or face belongs to, if known.
    """

    code: FindingCode
    photo: int
    message: str
    score: float | None = None
    limit: float | None = None
    person_id: str | None = None
    name: str | None = None


class EnrollmentChecks:
    """Checks photos before they are stored.

    Run it together with the enrollment inside ``gallery.batch()``, so that no other process can
    commit in between.

    Args:
        conflict: Maps the number of strangers in a search (``SearchResult.strangers``) to the
            calibrated score from which two faces count as one person.
        outlier: Score below which two photos count as different people.
        min_quality: Quality score below which a face is poor, in ``[0, 1]``.
    """

    def __init__(
        self,
        search: PeopleSearch,
        *,
        conflict: Callable[[int], float],
        outlier: float,
        min_quality: float = 0.0,
    ) -> None:
        self._search = search
        self._conflict = conflict
        self._outlier = outlier
        self._min_quality = min_quality

    def check(
        self, photos: Sequence[NewPhoto], *, name: str = "", person_id: str | None = None
    ) -> list[Finding]:
        """Checks photos of a new or an existing person.

        Args:
            person_id: The person to add them to, or None for a new one.

        Returns:
            The findings, in the order of the photos.
        """
        findings = [
            *self._same_photos(photos),
            *self._poor(photos),
            *self._conflicts(photos, name, person_id),
            *self._outliers(photos, person_id),
        ]
        return sorted(findings, key=lambda finding: finding.photo)

    def _same_photos(self, photos: Sequence[NewPhoto]) -> list[Finding]:
        findings = []
        gallery = self._search.gallery
        for position, photo in enumerate(photos):
            stored = gallery.reader.photos_with_hash(photo.content_hash)
            rows = gallery.changes.vectors_of([int(each.id) for each in stored], committed=False)
            same = np.flatnonzero(_same_face(rows.vectors, photo))
            earlier = [
                other.embedding.vector
                for other in photos[:position]
                if other.content_hash == photo.content_hash
            ]
            if len(same):
                owner = gallery.reader.get(rows.people[same[0]])
                message = f"{_label(photo, position)} is stored already, for {owner.name}."
                finding = Finding(
                    "same_photo", position, message, person_id=owner.id, name=owner.name
                )
                findings.append(finding)
            elif _same_face(earlier, photo).any():
                message = f"{_label(photo, position)} is given twice."
                findings.append(Finding("same_photo", position, message))
        return findings

    def _poor(self, photos: Sequence[NewPhoto]) -> list[Finding]:
        return [
            Finding(
                "poor_quality",
                position,
                f"{_label(photo, position)} is of poor quality ({photo.quality:.2f}, at least "
                f"{self._min_quality:.2f} is asked for).",
                score=photo.quality,
                limit=self._min_quality,
            )
            for position, photo in enumerate(photos)
            if photo.quality is not None and photo.quality < self._min_quality
        ]

    def _conflicts(
        self, photos: Sequence[NewPhoto], name: str, person_id: str | None
    ) -> list[Finding]:
        findings = []
        faces = [photo.embedding for photo in photos]
        results = self._search.search_many(faces, k=3, fusion="max")
        for position, (photo, result) in enumerate(zip(photos, results, strict=True)):
            limit = self._conflict(result.strangers)
            others = [match for match in result.nearest if match.person_id != person_id]
            if not others or others[0].score < limit:
                continue
            match = others[0]
            same_name = bool(name) and name_key(match.name) == name_key(name)
            verb = "is enrolled already as" if same_name else "looks like"
            findings.append(
                Finding(
                    "already_enrolled" if same_name else "other_name",
                    position,
                    f"The face in {_label(photo, position)} {verb} {match.name} "
                    f"(score {match.score:.3f}, limit {limit:.3f}).",
                    score=match.score,
                    limit=limit,
                    person_id=match.person_id,
                    name=match.name,
                )
            )
        return findings

    def _outliers(self, photos: Sequence[NewPhoto], person_id: str | None) -> list[Finding]:
        new = [np.asarray(photo.embedding.vector, np.float32) for photo in photos]
        stored = self._search.gallery.changes.vectors_of_people([person_id] if person_id else [])
        everything = np.array(new + [row.astype(np.float32) for row in stored.vectors])
        if len(everything) < 2:
            return []
        findings = []
        for position, photo in enumerate(photos):
            others = np.delete(everything, position, axis=0) @ everything[position]
            # The median is robust if a few of the others are wrong themselves.
            score = float(np.median(others))
            if score < self._outlier:
                findings.append(
                    Finding(
                        "outlier",
                        position,
                        f"{_label(photo, position)} does not look like the person's other "
                        f"photos (score {score:.3f}, limit {self._outlier:.3f}).",
                        score=score,
                        limit=self._outlier,
                        person_id=person_id,
                    )
                )
        return findings


def _same_face(vectors: Sequence[np.ndarray] | np.ndarray, photo: NewPhoto) -> np.ndarray:
    """Mask of the vectors that are the same face as a photo's, bool ``(n,)``."""
    new = np.asarray(photo.embedding.vector, np.float32)
    rows = np.asarray(vectors, np.float32).reshape(len(vectors), len(new))
    return rows @ new > _SAME_FACE


def _label(photo: NewPhoto, position: int) -> str:
    return photo.source_name or f"photo {position + 1}"
