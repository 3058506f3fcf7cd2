"""Secrets in a database of their own, so that backups of the gallery do not hold them.

The gallery then keeps a random handle where it would keep a secret. Forgetting somebody deletes
the secret behind the handle: a backup of the gallery made before still has the sealed records
and the handle, and neither opens anything. Keep no old backups of this database, only its last
state.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from model.errors import GalleryUnavailable

HANDLE_BYTES = 16
_OPTIONS = {"connect_timeout": 5, "keepalives_idle": 10, "application_name": "face-secrets"}
_CREATE = (
    "SELECT pg_advisory_xact_lock(1178690405, hashtext(current_schema())); "
    "CREATE TABLE IF NOT EXISTS gallery_secrets "
    "(handle bytea PRIMARY KEY, value bytea NOT NULL)"
)


class SecretStore:
    """Stored secrets by handle, in PostgreSQL.

    Args:
        url: ``postgresql://user@host/name``; best a server of its own, without archived logs.

    Raises:
        GalleryUnavailable: If the server cannot be reached or refuses; so for every method.
    """

    def __init__(self, url: str) -> None:
        with self._explained():
            with psycopg.connect(url, **_OPTIONS) as first:
                first.execute(_CREATE)
            self._pool = ConnectionPool(
                url,
                kwargs={"autocommit": True, **_OPTIONS},
                configure=_configure,
                min_size=1,
                max_size=12,
                timeout=5.0,
                open=True,
            )

    def put(self, values: Sequence[bytes]) -> list[bytes]:
        """Stores secrets durably and returns their handles."""
        handles = [os.urandom(HANDLE_BYTES) for _ in values]
        with self._explained(), self._pool.connection() as connection:
            connection.execute(
                "INSERT INTO gallery_secrets SELECT * FROM unnest(%s::bytea[], %s::bytea[])",
                (handles, list(values)),
            )
        return handles

    def get(self, handles: Sequence[bytes]) -> list[bytes | None]:
        """The secrets behind handles; None for those that were dropped."""
        with self._explained(), self._pool.connection() as connection:
            found = dict(
                connection.execute(
                    "SELECT handle, value FROM gallery_secrets WHERE handle = ANY(%b::bytea[])",
                    (list(handles),),
                    binary=True,
                ).fetchall()
            )
        return [found.get(handle) for handle in handles]

    def drop(self, handles: Sequence[bytes]) -> None:
        """Deletes secrets for good, and the old versions of their rows."""
        with self._explained(), self._pool.connection() as connection:
            connection.execute(
                "DELETE FROM gallery_secrets WHERE handle = ANY(%b::bytea[])", (list(handles),)
            )
            connection.execute("VACUUM gallery_secrets")

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (psycopg.Error, PoolTimeout) as error:
            state = getattr(error, "sqlstate", None) or "08000"
            if state.startswith(("08", "57P")) and hasattr(self, "_pool"):
                self._pool.check()
            raise GalleryUnavailable(
                f"The store of the gallery's secrets failed ({type(error).__name__}, SQLSTATE "
                f"{state}): start its database or check the address, and try again."
            ) from error


def _configure(connection: psycopg.Connection) -> None:
    connection.execute("SET statement_timeout = '60s'")
    connection.execute("SET synchronous_commit = on")
