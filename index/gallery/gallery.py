"""The gallery: people, photos and embeddings. The source of truth."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from index.gallery import export, meta, writes
from index.gallery.change_log import ChangeLog
from index.gallery.connect import connect_database, connect_secrets
from index.gallery.database import Database
from index.gallery.erasure import Erasure
from index.gallery.meta import GalleryMeta
from index.gallery.queries import GalleryReader
from index.types import Erased, NewPhoto, Person, usable_name
from model.errors import GalleryError


class Gallery:
    """A durable store of people. Create it with :meth:`open`.

    When a method returns, its changes are on disk. Thread-safe; several processes may read while
    one writes.

    Attributes:
        reader: Queries about people and photos.
        changes: The change log and the vectors, for indexes.
    """

    def __init__(self, folder: Path, database: Database, facts: GalleryMeta) -> None:
        self.folder = folder
        self._db = database
        self._facts = facts
        self.reader = GalleryReader(database, facts)
        self.changes = ChangeLog(database, facts)
        self._erasure = Erasure(folder, database, facts.vault.store)

    @classmethod
    def open(
        cls,
        folder: str | Path,
        *,
        url: str | None = None,
        secrets_url: str | None = None,
        model_id: str | None = None,
        key: bytes | None = None,
        dimension: int | None = None,
    ) -> Gallery:
        """Opens the gallery in a folder or at an address; creates it if it is missing.

        Args:
            folder: The data folder; created if it is missing.
            url: ``postgresql://user@host/name``, a database that several servers may share; the
                folder then holds only this server's index cache. None for a SQLite file in the
                folder.
            secrets_url: Another PostgreSQL database for the secrets, so that a backup of the
                gallery does not restore people who have been erased since. None for the gallery's
                own database.
            model_id: The model of the embeddings. Required for a new gallery; for an existing
                one, None accepts its model.
            key: 32 bytes that encrypt names, embeddings and thumbnails at rest, or None.
            dimension: Length of the model's vectors; others are rejected from then on. None
                takes it from the first photo, which may come from an untrusted file.

        Raises:
            BundleMismatch: If the gallery belongs to another model, or its vectors have another
                length.
            WrongKey: If the key is missing, wrong, or given for an unencrypted gallery.
            GalleryUnavailable: If the database cannot be used.
            GalleryError: If the gallery was written by a newer program.
        """
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as opened:
            database = connect_database(folder, url)
            opened.callback(database.close)
            store = connect_secrets(url, secrets_url)
            if store is not None:
                opened.callback(store.close)
            facts = meta.establish(database, model_id, key, dimension, store)
            opened.pop_all()
        gallery = cls(folder, database, facts)
        gallery._erasure.finish()
        return gallery

    @property
    def gallery_id(self) -> str:
        return self._facts.gallery_id

    @property
    def model_id(self) -> str:
        return self._facts.model_id

    @property
    def encrypted(self) -> bool:
        return self._facts.vault.encrypted

    @property
    def origin(self) -> str | None:
        """Id of the gallery that a move copied this one from, or None."""
        with self._db.read() as connection:
            return meta.read_meta(connection, "origin")

    def set_origin(self, gallery_id: str) -> None:
        """Records that this gallery is a copy of another one."""
        with self._db.write() as connection:
            meta.write_meta(connection, "origin", gallery_id)

    def close(self) -> None:
        """Closes the database. The gallery must not be used afterwards."""
        self._db.close()
        if self._facts.vault.store is not None:
            self._facts.vault.store.close()

    def __enter__(self) -> Gallery:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @contextmanager
    def batch(self) -> Iterator[None]:
        """Groups this thread's writes into one commit, rolled back as a whole if it raises.

        Other writers wait until it ends, so that a check made inside still holds at the commit.
        """
        with self._db.write():
            yield
        if not self._db.writing:
            self._erasure.finish()

    def enroll(
        self,
        name: str,
        photos: Sequence[NewPhoto],
        metadata: dict[str, Any] | None = None,
        consent: str = "",
        *,
        person_id: str | None = None,
        created: float | None = None,
        updated: float | None = None,
    ) -> Person:
        """Adds a person with their photos, all or nothing.

        Args:
            name: The name to show; need not be unique.
            photos: Their photos. A person without photos is stored, but no search finds them.
            metadata: JSON-serialisable data to store with the name.
            person_id: The id to use; None for a random one.
            created: Time of the first enrollment, in seconds since the epoch; None for now.
            updated: Time of the last change, in seconds since the epoch; None for now.

        Raises:
            BundleMismatch: If an embedding comes from another model.
            GalleryError: If ``person_id`` is taken.
        """
        vectors = [writes.stored_vector(photo, self.model_id) for photo in photos]
        now = time.time()
        person = Person(
            id=person_id or uuid.uuid4().hex,
            name=usable_name(name),
            metadata=metadata or {},
            consent=consent,
            created=now if created is None else created,
            updated=now if updated is None else updated,
        )
        with self._db.write() as connection:
            if person_id and writes.person_number(connection, person_id) is not None:
                raise GalleryError(f"There is already a person with the id {person.id}.")
            number = writes.insert_person(connection, self._facts, person)
            writes.insert_photos(connection, self._facts, number, photos, vectors, now)
        return replace(person, photos=len(photos))

    def add_photos(self, person_id: str, photos: Sequence[NewPhoto]) -> Person:
        vectors = [writes.stored_vector(photo, self.model_id) for photo in photos]
        now = time.time()
        with self._db.write() as connection:
            number = writes.known_person(connection, person_id)
            writes.insert_photos(connection, self._facts, number, photos, vectors, now)
            writes.touch(connection, number, now)
            return self.reader.get(person_id)

    def rename(self, person_id: str, name: str) -> Person:
        return self.update(person_id, name=name)

    def update(
        self,
        person_id: str,
        *,
        name: str | None = None,
        metadata: dict[str, Any] | None = None,
        consent: str | None = None,
    ) -> Person:
        """Replaces the given values and erases the old ones."""
        with self._db.write() as connection:
            number = writes.known_person(connection, person_id)
            person = self.reader.get(person_id)
            changed = replace(
                person,
                name=person.name if name is None else usable_name(name),
                metadata=person.metadata if metadata is None else metadata,
                consent=person.consent if consent is None else consent,
                updated=time.time(),
            )
            writes.update_person(connection, self._facts, number, changed)
            meta.begin_log_erasure(connection)
            person = self.reader.get(person_id)
        self._erasure.finish()
        return person

    def merge(self, keep_id: str, gone_id: str) -> Person:
        """Moves all photos of ``gone_id`` to ``keep_id`` and erases ``gone_id``.

        ``keep_id`` keeps its name, metadata and consent.
        """
        if keep_id == gone_id:
            raise ValueError(f"cannot merge the person {keep_id} with itself")
        with self._db.write() as connection:
            keep = writes.known_person(connection, keep_id)
            gone = writes.known_person(connection, gone_id)
            writes.move_photos(connection, gone, keep)
            writes.delete_person(connection, self._facts, gone)
            writes.touch(connection, keep, time.time())
            meta.begin_erasure(connection, self._facts)
            person = self.reader.get(keep_id)
        self._erasure.finish()
        return person

    def remove_photo(self, photo_id: str) -> Erased:
        """Erases one photo: its record, embedding and thumbnail."""
        with self._db.write() as connection:
            number, person_id = writes.photo_owner(connection, photo_id)
            thumbnails = writes.delete_photos(connection, self._facts, [int(photo_id)])
            writes.touch(connection, number, time.time())
            meta.begin_erasure(connection, self._facts)
        return Erased(person_id, 0, 1, thumbnails, complete=self._erasure.finish())

    def forget(self, person_id: str) -> Erased:
        """Erases a person: name, metadata, consent, photos, embeddings, thumbnails.

        Overwrites the secrets that decrypt the person's records in the database file, empties the
        write-ahead log and deletes index cache files. An index follows at its next use and saves
        a new cache without the person.
        """
        with self._db.write() as connection:
            number = writes.known_person(connection, person_id)
            photos = writes.photo_numbers(connection, number)
            thumbnails = writes.delete_photos(connection, self._facts, photos)
            writes.delete_person(connection, self._facts, number)
            meta.begin_erasure(connection, self._facts)
        return Erased(person_id, 1, len(photos), thumbnails, complete=self._erasure.finish())

    def export(self, path: str | Path, *, plain: bool = False) -> Path:
        """Writes everything into one portable, checksummed file.

        Args:
            plain: Do not encrypt the file, even if the gallery is encrypted.
        """
        if self._db.writing:
            raise ValueError("export must not be called inside a batch")
        return export.write(self, Path(path), None if plain else self._facts.vault.master)

    def import_(self, path: str | Path, *, existing: str = "error", thumbnails: bool = True) -> int:
        """Adds everyone from an exported file, all or nothing.

        Args:
            existing: ``error`` or ``skip`` people whose id is already in the gallery.

        Returns:
            The number of people added.
        """
        key = self._facts.vault.master
        return export.read(self, Path(path), key, existing, thumbnails=thumbnails)
