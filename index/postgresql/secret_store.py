"""A separate database for secrets, so that backups of the gallery do not contain them.

The gallery then stores a random handle instead of each secret. Erasing a person deletes the secret
of the handle. Older backups of the gallery still hold the encrypted records and the handle, but
these decrypt nothing. Keep only the latest backup of this database, no older ones.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import psycopg

from index.gallery.schema.postgresql import LOCK
from index.postgresql.dead_rows import remove_dead_rows
from index.postgresql.pool import Pool
from model.errors import GalleryUnavailable

HANDLE_BYTES = 16


class SecretStore:
    """Secrets by handle, in PostgreSQL.

    Args:
        url: ``postgresql://user@host/name``; preferably a separate server without archived logs.

    Raises:
        GalleryUnavailable: If the server cannot be reached or refuses; applies to all methods.
    """

    def __init__(self, url: str) -> None:
        self._pool = Pool(url, "the database of the gallery's secrets", 12, _create)

    def put(self, values: Sequence[bytes]) -> list[bytes]:
        """Stores secrets durably and returns their handles."""
        handles = [os.urandom(HANDLE_BYTES) for _ in values]
        with self._pool.connection() as connection:
            connection.execute(
                "INSERT INTO gallery_secrets SELECT * FROM unnest(%s::bytea[], %s::bytea[])",
                (handles, list(values)),
            )
        return handles

    def get(self, handles: Sequence[bytes]) -> list[bytes | None]:
        """Returns the secrets of handles; None for dropped secrets."""
        with self._pool.connection() as connection:
            found = dict(
                connection.execute(
                    "SELECT handle, value FROM gallery_secrets WHERE handle = ANY(%b::bytea[])",
                    (list(handles),),
                    binary=True,
                ).fetchall()
            )
        return [found.get(handle) for handle in handles]

    def drop(self, handles: Sequence[bytes]) -> None:
        """Deletes secrets permanently, including old versions of their rows.

        Raises:
            GalleryUnavailable: If old versions are still in use; call it again later.
        """
        with self._pool.connection() as connection:
            connection.execute(
                "DELETE FROM gallery_secrets WHERE handle = ANY(%b::bytea[])", (list(handles),)
            )
        if not remove_dead_rows(self._pool, "gallery_secrets"):
            raise GalleryUnavailable("Erased secrets are still in use by another transaction.")

    def close(self) -> None:
        self._pool.close()


def _create(connection: psycopg.Connection) -> None:
    with connection.transaction():
        connection.execute(LOCK)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS gallery_secrets "
            "(handle bytea PRIMARY KEY, value bytea NOT NULL)"
        )
