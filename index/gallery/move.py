"""Copies a gallery into another database: resumable, verified by counts and checksums."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice

import numpy as np
from tqdm import tqdm

from index.gallery.gallery import Gallery
from index.types import NewPhoto, Person
from model.errors import BundleMismatch, GalleryError
from model.types import Embedding

PEOPLE_AT_ONCE = 100
"""People per commit; an interrupted move repeats at most this many."""


@dataclass(frozen=True)
class Content:
    """Counts and checksum of a gallery.

    Attributes:
        checksum: Sum of the SHA-256 of each person with their photos, in hexadecimal; photo
            numbers are not included.
    """

    people: int
    photos: int
    checksum: str


@dataclass(frozen=True)
class Moved:
    """The result of a move.

    Attributes:
        copied: People copied in this run; the others were already there.
        removed: People deleted from the target because they are no longer in the source.
    """

    copied: int
    removed: int
    source: Content
    target: Content

    @property
    def agrees(self) -> bool:
        return self.source == self.target


def move_gallery(source: Gallery, target: Gallery, *, progress: bool = False) -> Moved:
    """Copies everyone to another gallery and verifies the copy. The source is not changed.

    People keep their ids and dates; photos get new numbers. Run it again to continue an
    interrupted move, or to copy later changes of the source.

    Args:
        target: An empty gallery, or one with an earlier move from the same source.

    Raises:
        BundleMismatch: If the target is for embeddings of another model.
        GalleryError: If the target holds people from elsewhere.
    """
    if source.model_id != target.model_id:
        raise BundleMismatch(
            f"The target is for embeddings of the model {target.model_id}, the source holds those "
            f"of {source.model_id}.",
            gallery=target.model_id,
            model=source.model_id,
        )
    _claim(source, target)
    copied = 0
    total = source.reader.count()
    with tqdm(total=total, unit="person", desc="move", disable=not (progress and total)) as bar:
        for people in _parts(source):
            copied += _copy(source, target, people)
            bar.update(len(people))
    removed = _remove_surplus(source, target)
    return Moved(copied, removed, content(source), content(target))


def content(gallery: Gallery) -> Content:
    """Computes the content of a gallery; independent of the order of people."""
    whole, people, photos = 0, 0, 0
    for part in _parts(gallery):
        for person, mine in _photos_of(gallery, part):
            whole += int.from_bytes(_digest(person, mine))
            people, photos = people + 1, photos + len(mine)
    return Content(people, photos, f"{whole % 2**256:064x}")


def _claim(source: Gallery, target: Gallery) -> None:
    """Records the source in the target; rejects a target with people from elsewhere."""
    origin = target.origin
    if origin is None and target.reader.count() == 0:
        target.set_origin(source.gallery_id)
    elif origin != source.gallery_id:
        raise GalleryError(
            "The target holds people who did not come from this source. Name an empty gallery."
        )


def _parts(gallery: Gallery) -> Iterator[list[Person]]:
    people = gallery.reader.iter_people()
    while part := list(islice(people, PEOPLE_AT_ONCE)):
        yield part


def _copy(source: Gallery, target: Gallery, people: Sequence[Person]) -> int:
    """Copies the people that are missing or different in the target, in one commit."""
    ids = [person.id for person in people]
    there = list(target.reader.get_many(ids).values())
    held = {person.id: _digest(person, mine) for person, mine in _photos_of(target, there)}
    copied = 0
    with target.batch():
        for person, photos in _photos_of(source, people):
            if held.get(person.id) == _digest(person, photos):
                continue
            if person.id in held:
                target.forget(person.id)
            target.enroll(
                person.name,
                photos,
                person.metadata,
                person.consent,
                person_id=person.id,
                created=person.created,
                updated=person.updated,
            )
            copied += 1
    return copied


def _remove_surplus(source: Gallery, target: Gallery) -> int:
    """Erases people from the target who are no longer in the source."""
    removed = 0
    for people in _parts(target):
        known = source.reader.get_many([person.id for person in people])
        for person in people:
            if person.id not in known:
                target.forget(person.id)
                removed += 1
    return removed


def _photos_of(
    gallery: Gallery, people: Sequence[Person]
) -> Iterator[tuple[Person, list[NewPhoto]]]:
    """Yields people with all stored data of their photos."""
    rows = gallery.changes.vectors_of_people([person.id for person in people])
    vectors = dict(zip(rows.ids.tolist(), rows.vectors, strict=True))
    for person in people:
        stored = gallery.reader.photos(person.id)
        yield (
            person,
            [
                NewPhoto(
                    Embedding(vectors[int(photo.id)].astype(np.float32), gallery.model_id),
                    photo.content_hash,
                    quality=photo.quality,
                    source_name=photo.source_name,
                    thumbnail=gallery.reader.thumbnail(photo.id),
                    note=photo.note,
                    created=photo.created,
                )
                for photo in stored
                if int(photo.id) in vectors
            ],
        )


def _digest(person: Person, photos: Sequence[NewPhoto]) -> bytes:
    """A checksum over a person and their photos, in order."""
    record = asdict(person) | {"photos": len(photos)}
    whole = hashlib.sha256(json.dumps(record, sort_keys=True).encode())
    for photo in photos:
        facts = (photo.content_hash, photo.quality, photo.source_name, photo.note, photo.created)
        whole.update(json.dumps(facts).encode())
        whole.update(photo.embedding.vector.astype("<f2").tobytes())
        whole.update(b"-" if photo.thumbnail is None else hashlib.sha256(photo.thumbnail).digest())
    return whole.digest()
