"""The second step of an erasure: removes old bytes from the files after rows are deleted."""

from __future__ import annotations

import logging
from pathlib import Path

from index.crypto.keys import SecretsElsewhere
from index.gallery import meta
from index.gallery.database import Database
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

CACHE_PATTERN = "index.*cache"
"""The cache file, and copies that an interrupted write left behind."""


class Erasure:
    """Finishes the erasures of a gallery, including those an earlier process left unfinished.

    Args:
        store: The secret store, if secrets are not in the database.
    """

    def __init__(
        self, folder: Path, database: Database, store: SecretsElsewhere | None = None
    ) -> None:
        self._folder = folder
        self._db = database
        self._store = store

    def finish(self) -> bool:
        """Deletes invalidated cache files and old versions of rows, if an erasure is pending.

        Returns:
            True if nothing is left. False if bytes remain, or inside a batch, which finishes
            erasures at its end.
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
        """Deletes the secrets of committed erasures from the store."""
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
