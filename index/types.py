"""Data types of the gallery: frozen dataclasses with numpy arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from model.types import Embedding

Operation = Literal["put", "drop"]


@dataclass(frozen=True, eq=False)
class NewPhoto:
    """A photo to enroll; the original picture is not stored.

    Attributes:
        embedding: The face as a unit vector, with the id of its model.
        content_hash: Hash of the original file's bytes; detects duplicates.
        quality: Quality score in ``[0, 1]``, or None if not measured.
        source_name: Origin of the photo, usually a file name.
        thumbnail: Encoded picture to show with the name, or None.
        note: Why it was stored despite failed checks; empty if none failed.
        created: Time of the first enrollment, in seconds since the epoch; None for now.
    """

    embedding: Embedding
    content_hash: str
    quality: float | None = None
    source_name: str = ""
    thumbnail: bytes | None = None
    note: str = ""
    created: float | None = None


@dataclass(frozen=True)
class StoredPhoto:
    """A stored photo without its vector and thumbnail.

    Attributes:
        id: The photo's number in this gallery, as text; never reused.
        quality: Quality score in ``[0, 1]``, or None.
        created: Time of enrollment, in seconds since the epoch.
    """

    id: str
    person_id: str
    content_hash: str
    quality: float | None
    source_name: str
    created: float
    note: str = ""


@dataclass(frozen=True)
class Person:
    """An enrolled person.

    Attributes:
        id: Random id; never changes.
        name: Display name; need not be unique.
        consent: How and when the person agreed to be enrolled.
        photos: Number of photos stored.
        created: Time of enrollment, in seconds since the epoch.
        updated: Time of the last change, in seconds since the epoch.
    """

    id: str
    name: str
    metadata: dict[str, Any] = field(default_factory=dict)
    consent: str = ""
    photos: int = 0
    created: float = 0.0
    updated: float = 0.0


@dataclass(frozen=True)
class Mark:
    """A point in a gallery's change log.

    Attributes:
        seq: Number of the last change included; 0 for none.
        token: Random number written with that change. A gallery restored from an older copy
            reuses sequence numbers but not tokens, so that an index detects the restore.
    """

    gallery_id: str
    seq: int
    token: int


@dataclass(frozen=True)
class Change:
    """One entry of the change log: ``put`` (new or moved) or ``drop`` of a photo."""

    seq: int
    operation: Operation
    photo: int


@dataclass(frozen=True, eq=False)
class Vectors:
    """Vectors of photos, for an index.

    Attributes:
        ids: int64 array ``(n,)`` of photo numbers.
        people: Person ids, one per photo.
        vectors: float16 array ``(n, D)``.
    """

    ids: np.ndarray
    people: list[str]
    vectors: np.ndarray

    def __len__(self) -> int:
        return len(self.ids)


@dataclass(frozen=True)
class Erased:
    """The result of an erasure.

    Attributes:
        people: Person records removed (name, metadata, consent).
        photos: Photo records and embeddings removed.
        thumbnails: Thumbnails removed.
        complete: True if no file of the data folder contains the data any more. False if a long
            read in another process still uses old pages of the write-ahead log (removed at a
            later write or the next start), or if an index server did not answer (removed at its
            next ``sync``).
    """

    person_id: str
    people: int
    photos: int
    thumbnails: int
    complete: bool


@dataclass(frozen=True)
class Counts:
    """Number of people and photos in a gallery."""

    people: int
    photos: int


MAX_NAME = 200


def usable_name(name: str) -> str:
    """Normalises a person's name: printable, with single spaces.

    Raises:
        ValueError: If it is empty, too long, or has unprintable characters.
    """
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(
            f"a name has 1 to {MAX_NAME} characters that can be printed, {name!r:.80} was given"
        )
    return name
