"""The gallery as an index sees it: the change log and the vectors."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from index.crypto.keys import unseal
from index.gallery import meta
from index.gallery.database import Connection, Database, Listener
from index.gallery.meta import GalleryMeta
from index.types import Change, Mark, Vectors

_VECTOR = (
    "SELECT embeddings.photo, people.id, embeddings.vector, secrets.value FROM embeddings "
    "JOIN photos ON photos.id = embeddings.photo "
    "JOIN people ON people.number = photos.person "
    "JOIN secrets ON secrets.id = photos.secret "
)


class ChangeLog:
    """The committed state of a gallery, for indexes in any process to follow."""

    def __init__(self, database: Database, facts: GalleryMeta) -> None:
        self._db = database
        self._facts = facts

    def head(self) -> Mark:
        with self._db.read(committed=True) as connection:
            return self._head(connection)

    def mark_at(self, seq: int) -> Mark | None:
        """The mark of a past change, or None if the log has no change ``seq``."""
        if seq == 0:
            return Mark(self._facts.gallery_id, 0, 0)
        with self._db.read(committed=True) as connection:
            row = connection.execute("SELECT token FROM changes WHERE seq = ?", (seq,)).fetchone()
        return None if row is None else Mark(self._facts.gallery_id, seq, row[0])

    def since(self, seq: int, limit: int = 10_000) -> list[Change]:
        """Committed changes after ``seq``, oldest first."""
        with self._db.read(committed=True) as connection:
            found = connection.execute(
                "SELECT seq, operation, photo FROM changes WHERE seq > ? ORDER BY seq LIMIT ?",
                (seq, limit),
            ).fetchall()
        return [Change(*row) for row in found]

    def listen(self, action: Callable[[], object]) -> Listener | None:
        """Calls an action in a thread whenever any server has committed changes.

        Returns:
            The listener, to be closed; None if the database sends no notifications and callers
            must poll :meth:`head`.
        """
        return self._db.listen(action)

    def cache_key(self) -> bytes:
        """The key for an index cache.

        An erasure replaces the key, so that caches written before can never be opened again.
        """
        with self._db.read(committed=True) as connection:
            return meta.cache_key(connection, self._facts)

    def vectors_of(self, photos: Sequence[int], *, committed: bool = True) -> Vectors:
        """Embeddings of the photos that exist, in ascending photo number.

        Args:
            committed: Inside a write, ignore its uncommitted changes.
        """
        with self._db.read(committed=committed) as connection:
            found = connection.execute(
                f"{_VECTOR} WHERE embeddings.photo {connection.any_number} "
                "ORDER BY embeddings.photo",
                (connection.array(int(number) for number in photos),),
            ).fetchall()
        return self._vectors(found)

    def vectors_of_people(self, person_ids: Sequence[str]) -> Vectors:
        """Committed embeddings of all photos of these people."""
        with self._db.read(committed=True) as connection:
            found = connection.execute(
                f"{_VECTOR} WHERE people.id {connection.any_text} ORDER BY embeddings.photo",
                (connection.array(person_ids),),
            ).fetchall()
        return self._vectors(found)

    def owners(self, photos: Sequence[int]) -> dict[int, str]:
        """Person ids by photo number, for the photos that exist."""
        with self._db.read(committed=True) as connection:
            found = connection.execute(
                "SELECT photos.id, people.id FROM photos "
                "JOIN people ON people.number = photos.person "
                f"WHERE photos.id {connection.any_number}",
                (connection.array(int(number) for number in photos),),
            )
            return dict(found.fetchall())

    def photo_ids(self) -> np.ndarray:
        """Numbers of all committed photos, int64, ascending."""
        with self._db.read(committed=True) as connection:
            found = connection.execute("SELECT photo FROM embeddings ORDER BY photo")
            return np.fromiter((number for (number,) in found), np.int64)

    def iter_embeddings(self, chunk: int = 4096) -> Iterator[Vectors]:
        """All committed embeddings in ascending photo number.

        Each chunk is a separate short read, so that a long iteration never blocks an erasure. Take
        :meth:`head` first: changes made during the iteration follow it in the log.
        """
        last = 0
        while True:
            with self._db.read(committed=True) as connection:
                found = connection.execute(
                    _VECTOR + "WHERE embeddings.photo > ? ORDER BY embeddings.photo LIMIT ?",
                    (last, chunk),
                ).fetchall()
            if not found:
                return
            last = found[-1][0]
            yield self._vectors(found)

    def _head(self, connection: Connection) -> Mark:
        row = connection.execute("SELECT seq, token FROM changes ORDER BY seq DESC LIMIT 1")
        return Mark(self._facts.gallery_id, *(row.fetchone() or (0, 0)))

    def _vectors(self, found: list[tuple]) -> Vectors:
        secrets = self._facts.vault.open([row[3] for row in found])
        # A restored backup may hold people whose secrets have been erased since.
        found = [
            (*row[:3], secret)
            for row, secret in zip(found, secrets, strict=True)
            if secret is not None
        ]
        plain = b"".join(unseal(row[3], row[2], b"embedding") for row in found)
        return Vectors(
            ids=np.fromiter((row[0] for row in found), np.int64, len(found)),
            people=[row[1] for row in found],
            vectors=np.frombuffer(plain, "<f2").reshape(len(found), -1 if found else 0),
        )
