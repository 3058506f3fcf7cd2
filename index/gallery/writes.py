"""Single-row work on the gallery's tables, inside a transaction the caller holds."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from index.crypto.keys import name_key, seal, tag
from index.gallery.meta import GalleryMeta, add_secret, require_dimension, shred
from index.types import NewPhoto


def person_number(connection: sqlite3.Connection, person_id: str) -> int | None:
    row = connection.execute("SELECT number FROM people WHERE id = ?", (person_id,)).fetchone()
    return None if row is None else row[0]


def photo_owner(connection: sqlite3.Connection, photo_id: str) -> tuple[int, str] | None:
    """The number and id of the person a photo belongs to, or None for an unknown photo."""
    if not str(photo_id).isdecimal():
        return None
    return connection.execute(
        "SELECT people.number, people.id FROM photos "
        "JOIN people ON people.number = photos.person WHERE photos.id = ?",
        (int(photo_id),),
    ).fetchone()


def photo_numbers(connection: sqlite3.Connection, number: int) -> list[int]:
    found = connection.execute("SELECT id FROM photos WHERE person = ? ORDER BY id", (number,))
    return [row[0] for row in found]


def profile(name: str, metadata: dict[str, Any], consent: str) -> bytes:
    """The part of a person's record that is sealed."""
    try:
        text = json.dumps(
            {"name": name, "metadata": metadata, "consent": consent}, ensure_ascii=False
        )
    except TypeError as error:
        raise ValueError(f"metadata must be JSON-serialisable: {error}") from error
    return text.encode()


def insert_person(
    connection: sqlite3.Connection,
    facts: GalleryMeta,
    person_id: str,
    name: str,
    metadata: dict[str, Any],
    consent: str,
    created: float,
    updated: float,
) -> int:
    secret, stored = facts.vault.create()
    return connection.execute(
        "INSERT INTO people (id, secret, name_tag, profile, created, updated) "
        "VALUES (?, ?, ?, ?, ?, ?)",
        (
            person_id,
            add_secret(connection, stored),
            tag(facts.tag_key, name_key(name)),
            seal(secret, profile(name, metadata, consent), b"profile"),
            created,
            updated,
        ),
    ).lastrowid


def update_person(
    connection: sqlite3.Connection,
    facts: GalleryMeta,
    number: int,
    name: str,
    metadata: dict[str, Any],
    consent: str,
    now: float,
) -> None:
    """Writes a person's profile again, under a fresh secret that overwrites the old one."""
    secret, stored = facts.vault.create()
    connection.execute(
        "UPDATE secrets SET value = ? WHERE id = (SELECT secret FROM people WHERE number = ?)",
        (stored, number),
    )
    connection.execute(
        "UPDATE people SET name_tag = ?, profile = ?, updated = ? WHERE number = ?",
        (
            tag(facts.tag_key, name_key(name)),
            seal(secret, profile(name, metadata, consent), b"profile"),
            now,
            number,
        ),
    )


def insert_photos(
    connection: sqlite3.Connection,
    facts: GalleryMeta,
    number: int,
    photos: Sequence[NewPhoto],
    vectors: Sequence[np.ndarray],
    now: float,
) -> list[int]:
    """Stores photos with their float16 vectors and logs them; returns their numbers."""
    numbers = []
    for dimension in {len(vector) for vector in vectors}:
        require_dimension(connection, dimension)
    for photo, vector in zip(photos, vectors, strict=True):
        secret, stored = facts.vault.create()
        details = {
            "content_hash": photo.content_hash,
            "source_name": photo.source_name,
            "note": photo.note,
        }
        photo_number = connection.execute(
            "INSERT INTO photos (person, secret, hash_tag, quality, details, created) "
            "VALUES (?, ?, ?, ?, ?, ?)",
            (
                number,
                add_secret(connection, stored),
                tag(facts.tag_key, photo.content_hash),
                photo.quality if photo.quality is not None else photo.embedding.quality,
                seal(secret, json.dumps(details, ensure_ascii=False).encode(), b"details"),
                now if photo.created is None else photo.created,
            ),
        ).lastrowid
        connection.execute(
            "INSERT INTO embeddings (photo, model_id, vector) VALUES (?, ?, ?)",
            (photo_number, facts.model_id, seal(secret, vector.tobytes(), b"embedding")),
        )
        if photo.thumbnail is not None:
            connection.execute(
                "INSERT INTO thumbnails (photo, image) VALUES (?, ?)",
                (photo_number, seal(secret, photo.thumbnail, b"thumbnail")),
            )
        numbers.append(photo_number)
    _log(connection, "put", numbers)
    return numbers


def delete_photos(connection: sqlite3.Connection, numbers: list[int]) -> int:
    """Shreds and deletes photos, logs it, and returns how many thumbnails went with them."""
    chosen = json.dumps(numbers)
    secrets = connection.execute(
        "SELECT secret FROM photos WHERE id IN (SELECT value FROM json_each(?))", (chosen,)
    ).fetchall()
    shred(connection, [row[0] for row in secrets])
    counted = connection.execute(
        "DELETE FROM thumbnails WHERE photo IN (SELECT value FROM json_each(?))", (chosen,)
    ).rowcount
    connection.execute("DELETE FROM photos WHERE id IN (SELECT value FROM json_each(?))", (chosen,))
    _log(connection, "drop", numbers)
    return counted


def delete_person(connection: sqlite3.Connection, number: int) -> None:
    """Shreds and deletes a person who has no photos left."""
    row = connection.execute("SELECT secret FROM people WHERE number = ?", (number,)).fetchone()
    shred(connection, [row[0]])
    connection.execute("DELETE FROM people WHERE number = ?", (number,))


def move_photos(connection: sqlite3.Connection, source: int, target: int) -> None:
    """Hands all photos of one person to another and logs them as changed."""
    numbers = photo_numbers(connection, source)
    connection.execute("UPDATE photos SET person = ? WHERE person = ?", (target, source))
    _log(connection, "put", numbers)


def touch(connection: sqlite3.Connection, number: int, now: float) -> None:
    connection.execute("UPDATE people SET updated = ? WHERE number = ?", (now, number))


def _log(connection: sqlite3.Connection, operation: str, numbers: list[int]) -> None:
    connection.executemany(
        "INSERT INTO changes (operation, photo, token) VALUES (?, ?, random())",
        [(operation, number) for number in numbers],
    )
