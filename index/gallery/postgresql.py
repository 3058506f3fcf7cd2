"""The gallery in PostgreSQL: many servers read, one writes at a time, every commit durable."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from index.gallery.database import Writer
from index.gallery.schema.postgresql import CHANGES, LOCK, migrate
from index.postgresql.connection import PostgresConnection
from index.postgresql.dead_rows import remove_dead_rows
from index.postgresql.listener import ChangeListener
from index.postgresql.pool import Pool

log = logging.getLogger(__name__)

POOL = 12


class PostgresDatabase:
    """A PostgreSQL database; see :class:`~index.gallery.database.Database`.

    Args:
        url: As for :class:`~index.postgresql.pool.Pool`.

    Raises:
        GalleryUnavailable: If the server cannot be reached or refuses; applies to all methods.
    """

    def __init__(self, url: str) -> None:
        parts = conninfo_to_dict(url)
        self.name = f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"
        self.start_over = "drop the database and create it again while no program uses it"
        self._pool = Pool(url, "the gallery's database", POOL, _prepare)
        self._writer: Writer[PostgresConnection] = Writer(
            self._begin,
            broken=lambda connection: connection.raw.closed,
            give_back=lambda connection: self._pool.give_back(connection.raw),
        )

    @property
    def writing(self) -> bool:
        return self._writer.connection is not None

    @contextmanager
    def read(self, committed: bool = False) -> Iterator[PostgresConnection]:
        writer = self._writer.connection
        if writer is not None and not committed:
            yield writer
            return
        with self._pool.connection() as raw:
            yield PostgresConnection(raw)

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        with self._pool.explained(), self._writer.transaction() as connection:
            yield connection

    def _begin(self) -> PostgresConnection:
        raw = self._pool.borrow()
        try:
            # Each statement after the lock sees the last writer's commit.
            raw.execute(f"BEGIN ISOLATION LEVEL READ COMMITTED; {LOCK}", prepare=False)
        except BaseException:
            # The pool rolls back, or replaces a broken connection.
            self._pool.give_back(raw)
            raise
        return PostgresConnection(raw)

    def scrub(self) -> bool:
        """Removes dead rows of secrets; ``index/README.md`` describes what the log keeps.

        Returns:
            False if the role lacks the permission or a long transaction still needs the rows.
        """
        return remove_dead_rows(self._pool, "secrets")

    def listen(self, action: Callable[[], object]) -> ChangeListener:
        return ChangeListener(self._pool.conninfo, CHANGES, action)

    def close(self) -> None:
        self._pool.close()


def _prepare(connection: psycopg.Connection) -> None:
    migrate(connection)
    if connection.execute("SHOW fsync").fetchone() != ("on",):
        log.warning("the database runs with fsync off: a power cut loses enrollments")
