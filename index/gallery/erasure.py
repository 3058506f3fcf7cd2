"""The second half of an erasure: old bytes leave the files once the rows are gone."""

from __future__ import annotations

import logging
from pathlib import Path

from index.crypto.keys import SecretsElsewhere
from index.gallery import meta
from index.gallery.database import Database
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

CACHE_PATTERN = "index.cache*"


class Erasure:
    """Finishes erasures of a gallery, also those that an earlier process left unfinished.

    Args:
        folder: Where index cache files lie.
        database: The gallery's database.
        store: Where secrets are kept, if not in the database.
    """

    def __init__(
        self, folder: Path, database: Database, store: SecretsElsewhere | None = None
    ) -> None:
        self._folder = folder
        self._db = database
        self._store = store

    def finish(self) -> bool:
        """Deletes void cache files and old versions of rows, if an erasure waits for that.

        Returns:
            True when nothing is left; False inside a batch, which finishes at its end.
        """
        if self._db.writing:
            return False
        with self._db.read() as connection:
            waiting = meta.waiting_erasures(connection)
        if not waiting:
            return True
        if meta.CACHE_MARK in waiting:
            for path in self._folder.glob(CACHE_PATTERN):
                path.unlink(missing_ok=True)
        complete = self._drop_secrets() and self._db.scrub()
        if complete:
            with self._db.write() as connection:
                meta.end_erasures(connection, waiting)
        return complete

    def _drop_secrets(self) -> bool:
        """Deletes from the store what erasures that were committed left there."""
        if self._store is None:
            return True
        with self._db.read() as connection:
            found = connection.execute("SELECT handle FROM dropped_secrets").fetchall()
        try:
            self._store.drop([handle for (handle,) in found])
        except GalleryUnavailable as error:
            log.warning("secrets wait for their erasure: %s", error)
            return False
        with self._db.write() as connection:
            connection.executemany("DELETE FROM dropped_secrets WHERE handle = ?", found)
        return True
