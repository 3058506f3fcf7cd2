"""The second half of an erasure: old bytes leave the files once the rows are gone."""

from __future__ import annotations

from pathlib import Path

from index.gallery import meta
from index.gallery.database import Database

CACHE_PATTERN = "index.cache*"


class Erasure:
    """Finishes erasures of a gallery, also those that an earlier process left unfinished.

    Args:
        folder: Where index cache files lie.
        database: The gallery's database.
    """

    def __init__(self, folder: Path, database: Database) -> None:
        self._folder = folder
        self._db = database

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
        complete = self._db.scrub()
        if complete:
            with self._db.write() as connection:
                meta.end_erasures(connection, waiting)
        return complete
