"""Queries about people and photos."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import islice

from index.crypto.keys import name_key, tag, unseal
from index.gallery import meta, writes
from index.gallery.database import Database
from index.gallery.meta import GalleryMeta
from index.types import Counts, Person, StoredPhoto
from model.errors import UnknownPerson

_PERSON = (
    "SELECT people.number, people.id, people.profile, people.created, people.updated, "
    "secrets.value, "
    "(SELECT COUNT(*) FROM photos WHERE photos.person = people.number) "
    "FROM people JOIN secrets ON secrets.id = people.secret "
)
_PHOTO = (
    "SELECT photos.id, people.id, photos.details, photos.quality, photos.created, secrets.value "
    "FROM photos JOIN people ON people.number = photos.person "
    "JOIN secrets ON secrets.id = photos.secret "
)


class GalleryReader:
    """Queries about people and photos; inside a batch they see its changes."""

    def __init__(self, database: Database, facts: GalleryMeta) -> None:
        self._db = database
        self._facts = facts

    def dimension(self) -> int | None:
        """Length of the gallery's vectors, or None if not set yet."""
        with self._db.read() as connection:
            return meta.read_meta(connection, "dimension")

    def counts(self) -> Counts:
        with self._db.read() as connection:
            return Counts(*connection.execute("SELECT people, photos FROM counts").fetchone())

    def count(self) -> int:
        return self.counts().people

    def get(self, person_id: str) -> Person:
        """The person with this id.

        Raises:
            UnknownPerson: If there is none.
        """
        with self._db.read() as connection:
            found = connection.execute(_PERSON + "WHERE people.id = ?", (person_id,)).fetchall()
        people = self._people(found)
        if not people:
            raise UnknownPerson(f"No person with the id {person_id} is in the gallery.")
        return people[0]

    def get_many(self, person_ids: Sequence[str]) -> dict[str, Person]:
        """The given people who are in the gallery, by id."""
        with self._db.read() as connection:
            found = connection.execute(
                f"{_PERSON} WHERE people.id {connection.any_text}", (connection.array(person_ids),)
            ).fetchall()
        return {person.id: person for person in self._people(found)}

    def find_by_name(self, name: str) -> list[Person]:
        """Everyone with this name, ignoring case and spacing, oldest record first."""
        with self._db.read() as connection:
            found = connection.execute(
                _PERSON + "WHERE people.name_tag = ? ORDER BY people.number",
                (tag(self._facts.tag_key, name_key(name)),),
            ).fetchall()
        return self._people(found)

    def people(self, limit: int = 50, offset: int = 0, query: str = "") -> list[Person]:
        """A page of people, oldest record first.

        Args:
            query: Only people whose name contains this text, ignoring case. Names are encrypted,
                so this decrypts every record: about 5 seconds for a million people.
        """
        if limit < 0 or offset < 0:
            raise ValueError(f"limit and offset must not be negative, got {limit} and {offset}")
        if not query:
            with self._db.read() as connection:
                found = connection.execute(
                    _PERSON + "ORDER BY people.number LIMIT ? OFFSET ?", (limit, offset)
                ).fetchall()
            return self._people(found)
        wanted = name_key(query)
        named = (person for person in self.iter_people() if wanted in name_key(person.name))
        return list(islice(named, offset, offset + limit))

    def iter_people(self, chunk: int = 1000) -> Iterator[Person]:
        """Everyone, oldest record first; each chunk is a separate short read."""
        last = 0
        while True:
            with self._db.read() as connection:
                found = connection.execute(
                    _PERSON + "WHERE people.number > ? ORDER BY people.number LIMIT ?",
                    (last, chunk),
                ).fetchall()
            if not found:
                return
            last = found[-1][0]
            yield from self._people(found)

    def photos(self, person_id: str) -> list[StoredPhoto]:
        """A person's photos, oldest first."""
        with self._db.read() as connection:
            number = writes.known_person(connection, person_id)
            found = connection.execute(
                _PHOTO + "WHERE photos.person = ? ORDER BY photos.id", (number,)
            ).fetchall()
        return self._photos(found)

    def photos_by_number(self, numbers: Sequence[int]) -> list[StoredPhoto]:
        """The photos with these numbers that exist, in ascending order."""
        with self._db.read() as connection:
            found = connection.execute(
                f"{_PHOTO} WHERE photos.id {connection.any_number} ORDER BY photos.id",
                (connection.array(numbers),),
            ).fetchall()
        return self._photos(found)

    def photos_with_hash(self, content_hash: str) -> list[StoredPhoto]:
        with self._db.read() as connection:
            found = connection.execute(
                _PHOTO + "WHERE photos.hash_tag = ? ORDER BY photos.id",
                (tag(self._facts.tag_key, content_hash),),
            ).fetchall()
        return self._photos(found)

    def thumbnail(self, photo_id: str) -> bytes | None:
        """The encoded thumbnail of a photo, or None if it has none."""
        with self._db.read() as connection:
            writes.photo_owner(connection, photo_id)
            row = connection.execute(
                "SELECT secrets.value, thumbnails.image FROM thumbnails "
                "JOIN photos ON photos.id = thumbnails.photo "
                "JOIN secrets ON secrets.id = photos.secret WHERE photos.id = ?",
                (int(photo_id),),
            ).fetchone()
        if row is None:
            return None
        return unseal(self._facts.vault.open_one(row[0]), row[1], b"thumbnail")

    def _people(self, found: list[tuple]) -> list[Person]:
        people = []
        for row, secret in self._with_secrets(found, column=5):
            _, person_id, sealed, created, updated, _, photos = row
            profile = json.loads(unseal(secret, sealed, b"profile"))
            people.append(
                Person(id=person_id, photos=photos, created=created, updated=updated, **profile)
            )
        return people

    def _photos(self, found: list[tuple]) -> list[StoredPhoto]:
        photos = []
        for row, secret in self._with_secrets(found, column=5):
            number, person_id, sealed, quality, created, _ = row
            details = json.loads(unseal(secret, sealed, b"details"))
            photos.append(
                StoredPhoto(
                    id=str(number),
                    person_id=person_id,
                    quality=quality,
                    created=created,
                    **details,
                )
            )
        return photos

    def _with_secrets(self, found: list[tuple], column: int) -> Iterator[tuple[tuple, bytes]]:
        """Rows with their secrets; skips rows whose secret was erased in the store."""
        # A restored backup may hold people whose secrets have been erased since.
        secrets = self._facts.vault.open([row[column] for row in found])
        for row, secret in zip(found, secrets, strict=True):
            if secret is not None:
                yield row, secret
