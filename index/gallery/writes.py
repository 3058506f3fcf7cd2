"""Writes to the gallery's tables, inside a transaction of the caller."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from typing import Any

import numpy as np

from index.crypto.keys import name_key, seal, tag
from index.gallery.database import Connection
from index.gallery.meta import (
    GalleryMeta,
    add_secrets,
    overwrite_secret,
    require_dimension,
    shred,
)
from index.types import NewPhoto, Person
from model.errors import BundleMismatch, UnknownPerson


def person_number(connection: Connection, person_id: str) -> int | None:
    row = connection.execute("SELECT number FROM people WHERE id = ?", (person_id,)).fetchone()
    return None if row is None else row[0]


def known_person(connection: Connection, person_id: str) -> int:
    """The number of a person.

    Raises:
        UnknownPerson: If there is no person with this id.
    """
    number = person_number(connection, person_id)
    if number is None:
        raise UnknownPerson(f"No person with the id {person_id} is in the gallery.")
    return number


def photo_owner(connection: Connection, photo_id: str) -> tuple[int, str]:
    """The number and id of a photo's person.

    Raises:
        UnknownPerson: If there is no photo with this id.
    """
    found = None
    if str(photo_id).isdecimal() and len(str(photo_id)) < 19:
        found = connection.execute(
            "SELECT people.number, people.id FROM photos "
            "JOIN people ON people.number = photos.person WHERE photos.id = ?",
            (int(photo_id),),
        ).fetchone()
    if found is None:
        raise UnknownPerson(f"No photo with the id {photo_id} is in the gallery.")
    return found


def photo_numbers(connection: Connection, number: int) -> list[int]:
    found = connection.execute("SELECT id FROM photos WHERE person = ? ORDER BY id", (number,))
    return [row[0] for row in found]


def profile(name: str, metadata: dict[str, Any], consent: str) -> bytes:
    """The part of a person's record that is encrypted, as JSON."""
    try:
        text = json.dumps(
            {"name": name, "metadata": metadata, "consent": consent}, ensure_ascii=False
        )
    except TypeError as error:
        raise ValueError(f"metadata must be JSON-serialisable: {error}") from error
    return text.encode()


def insert_person(connection: Connection, facts: GalleryMeta, person: Person) -> int:
    ((secret, stored),) = facts.vault.create(1)
    sealed = seal(secret, profile(person.name, person.metadata, person.consent), b"profile")
    row = (
        person.id,
        add_secrets(connection, [stored])[0],
        tag(facts.tag_key, name_key(person.name)),
        sealed,
        person.created,
        person.updated,
    )
    return connection.insert("people", [row])[0]


def update_person(connection: Connection, facts: GalleryMeta, number: int, person: Person) -> None:
    """Rewrites a person's profile with a new secret that overwrites the old one."""
    ((secret, stored),) = facts.vault.create(1)
    found = connection.execute("SELECT secret FROM people WHERE number = ?", (number,))
    overwrite_secret(connection, facts, found.fetchone()[0], stored)
    connection.execute(
        "UPDATE people SET name_tag = ?, profile = ?, updated = ? WHERE number = ?",
        (
            tag(facts.tag_key, name_key(person.name)),
            seal(secret, profile(person.name, person.metadata, person.consent), b"profile"),
            person.updated,
            number,
        ),
    )


def stored_vector(photo: NewPhoto, model_id: str) -> np.ndarray:
    """A photo's vector as stored, float16 ``(D,)``.

    Raises:
        BundleMismatch: If it comes from another model.
        ValueError: If it is not a unit vector.
    """
    if photo.embedding.model_id != model_id:
        raise BundleMismatch(
            f"The photo {photo.source_name or photo.content_hash} was embedded by the model "
            f"{photo.embedding.model_id}, the gallery holds embeddings of {model_id}.",
            gallery=model_id,
            model=photo.embedding.model_id,
        )
    vector = np.asarray(photo.embedding.vector, np.float32)
    norm = float(np.linalg.norm(vector))
    if vector.ndim != 1 or not abs(norm - 1) < 1e-2:
        raise ValueError(
            f"an embedding is a unit vector of shape (D,), got shape {vector.shape} and "
            f"length {norm:.4g}"
        )
    return vector.astype("<f2")


def insert_photos(
    connection: Connection,
    facts: GalleryMeta,
    number: int,
    photos: Sequence[NewPhoto],
    vectors: Sequence[np.ndarray],
    now: float,
) -> list[int]:
    """Stores photos with their float16 vectors and logs them; returns their numbers."""
    for dimension in {len(vector) for vector in vectors} - {facts.dimension}:
        require_dimension(connection, dimension)
    created = facts.vault.create(len(photos))
    slots = add_secrets(connection, [stored for _, stored in created])
    keys = [secret for secret, _ in created]
    numbers = connection.insert(
        "photos",
        [
            (
                number,
                slot,
                tag(facts.tag_key, photo.content_hash),
                photo.quality if photo.quality is not None else photo.embedding.quality,
                seal(key, _details(photo), b"details"),
                now if photo.created is None else photo.created,
            )
            for photo, slot, key in zip(photos, slots, keys, strict=True)
        ],
    )
    connection.append(
        "embeddings",
        [
            (photo_number, facts.model_id, seal(key, vector.tobytes(), b"embedding"))
            for photo_number, vector, key in zip(numbers, vectors, keys, strict=True)
        ],
    )
    connection.append(
        "thumbnails",
        [
            (photo_number, seal(key, photo.thumbnail, b"thumbnail"))
            for photo_number, photo, key in zip(numbers, photos, keys, strict=True)
            if photo.thumbnail is not None
        ],
    )
    _log(connection, "put", numbers)
    return numbers


def _details(photo: NewPhoto) -> bytes:
    """The part of a photo's record that is encrypted, as JSON."""
    names = ("content_hash", "source_name", "note")
    text = json.dumps({name: getattr(photo, name) for name in names}, ensure_ascii=False)
    return text.encode()


def delete_photos(connection: Connection, facts: GalleryMeta, numbers: list[int]) -> int:
    """Shreds, deletes and logs photos; returns the number of thumbnails deleted."""
    chosen, among = (connection.array(numbers),), connection.any_number
    slots = connection.execute(f"SELECT secret FROM photos WHERE id {among}", chosen).fetchall()
    shred(connection, facts, [slot for (slot,) in slots])
    counted = connection.execute(f"DELETE FROM thumbnails WHERE photo {among}", chosen).rowcount
    connection.execute(f"DELETE FROM photos WHERE id {among}", chosen)
    _log(connection, "drop", numbers)
    return counted


def delete_person(connection: Connection, facts: GalleryMeta, number: int) -> None:
    row = connection.execute("SELECT secret FROM people WHERE number = ?", (number,)).fetchone()
    shred(connection, facts, [row[0]])
    connection.execute("DELETE FROM people WHERE number = ?", (number,))


def move_photos(connection: Connection, source: int, target: int) -> None:
    """Moves all photos of one person to another and logs them as changed."""
    numbers = photo_numbers(connection, source)
    connection.execute("UPDATE photos SET person = ? WHERE person = ?", (target, source))
    _log(connection, "put", numbers)


def touch(connection: Connection, number: int, now: float) -> None:
    connection.execute("UPDATE people SET updated = ? WHERE number = ?", (now, number))


def _log(connection: Connection, operation: str, numbers: list[int]) -> None:
    connection.insert("changes", [(operation, number, secrets.randbits(63)) for number in numbers])
