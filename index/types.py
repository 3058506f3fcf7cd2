"""The values the gallery takes and gives: frozen, typed, numpy only."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from model.types import Embedding

Operation = Literal["put", "drop"]


@dataclass(frozen=True, eq=False)
class NewPhoto:
    """A photo on its way into the gallery; the original picture is not kept.

    Attributes:
        embedding: The face as a unit vector, with the id of the model that made it.
        content_hash: Hash of the original file's bytes; tells "the same photo again".
        quality: Quality score in ``[0, 1]``, or None when it was not measured.
        source_name: Where the photo came from, usually a file name.
        thumbnail: Encoded picture to show beside the name, or None.
        note: Why it was stored although something spoke against it; empty when nothing did.
        created: When it was first stored, in seconds since the epoch; None for now.
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
        id: The photo's number in this gallery, as text; never used twice.
        person_id: Whose photo it is.
        content_hash: Hash of the original file's bytes.
        quality: Quality score in ``[0, 1]``, or None.
        source_name: Where the photo came from.
        created: Seconds since the epoch.
        note: Why it was stored although something spoke against it.
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
    """Someone the gallery knows.

    Attributes:
        id: Random id, stable for the life of the record.
        name: The name shown to people; two persons may share one.
        metadata: Whatever JSON the caller wants to keep beside the name.
        consent: How and when the person agreed to be enrolled.
        photos: Number of photos stored.
        created: Seconds since the epoch.
        updated: Seconds since the epoch of the last change.
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
        gallery_id: Which gallery.
        seq: Number of the last change included; 0 for none.
        token: Random number written with that change. A gallery restored from an older copy
            reuses sequence numbers but not tokens, so an index notices the difference.
    """

    gallery_id: str
    seq: int
    token: int


@dataclass(frozen=True)
class Change:
    """One line of the change log: ``put`` (new or moved) or ``drop`` of a photo."""

    seq: int
    operation: Operation
    photo: int


@dataclass(frozen=True, eq=False)
class Vectors:
    """Photos on their way to an index.

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
    """What an erasure removed.

    Attributes:
        person_id: Whose data it was.
        people: Person records removed (name, metadata, consent).
        photos: Photo records and embeddings removed.
        thumbnails: Thumbnails removed.
        complete: True when no file of the data folder holds the bytes any more. False when a
            long read in another process still needs the old pages of the write-ahead log, which
            go with the next write or start, or when an index elsewhere could not be reached,
            which follows with its next ``sync``.
    """

    person_id: str
    people: int
    photos: int
    thumbnails: int
    complete: bool


@dataclass(frozen=True)
class Counts:
    """How much a gallery holds."""

    people: int
    photos: int


MAX_NAME = 200


def usable_name(name: str) -> str:
    """A person's name in the form it is kept: printable, with single spaces.

    Raises:
        ValueError: It is empty, too long, or has characters that cannot be printed.
    """
    name = " ".join(name.split())
    if not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise ValueError(
            f"a name has 1 to {MAX_NAME} characters that can be printed, {name!r:.80} was given"
        )
    return name
