"""The gallery in PostgreSQL: many servers read, one writes at a time, every commit durable."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from index.gallery.database import Writer
from index.gallery.schema.postgresql import CHANGES, HOLD_LOCK, LOCK, RELEASE_LOCK, migrate
from index.postgresql.connection import PostgresConnection
from index.postgresql.listener import ChangeListener
from index.postgresql.pool import SESSION, Pool
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

POOL = 12
VACUUM_FULL_BYTES = 256 << 20
"""Size in bytes up to which an erasure rewrites the whole table of secrets."""
READER_SECONDS = 1.0
"""Longest wait of an erasure for readers that still see what was erased."""

_OLDER_READERS = """
SELECT count(*) FROM (
    SELECT backend_xmin AS seen FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
    UNION ALL SELECT xmin FROM pg_replication_slots
    UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()
) AS readers WHERE age(seen) > age(%s::xid)
"""


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
        try:
            with self._pool.connection() as raw, _without_writers(raw):
                if not _wait_for_readers(raw):
                    return False
                ((size,),) = raw.execute("SELECT pg_total_relation_size('secrets')").fetchall()
                raw.execute(
                    "VACUUM (FULL) secrets" if size < VACUUM_FULL_BYTES else "VACUUM secrets"
                )
        except GalleryUnavailable:
            return False
        return True

    def listen(self, action: Callable[[], object]) -> ChangeListener:
        return ChangeListener(self._pool.conninfo, CHANGES, action)

    def close(self) -> None:
        self._pool.close()


@contextmanager
def _without_writers(raw: psycopg.Connection) -> Iterator[None]:
    """Holds the write lock, and waits only shortly for other locks.

    A writer in another connection may read through further connections. A rewrite of the table that
    waits for the writer would make these reads wait in turn, and nobody could go on. A reader that
    takes minutes, such as a dump, must not make everybody wait behind the rewrite either.
    """
    raw.execute(HOLD_LOCK)
    try:
        raw.execute(f"SET lock_timeout = {int(1000 * READER_SECONDS)}")
        yield
    finally:
        raw.execute(f"SET lock_timeout = '{SESSION['lock_timeout']}'")
        raw.execute(RELEASE_LOCK)


def _wait_for_readers(raw: psycopg.Connection) -> bool:
    """Waits until nobody sees rows deleted so far; returns False if somebody still does."""
    ((now,),) = raw.execute("SELECT pg_current_xact_id()::xid").fetchall()
    end = time.monotonic() + READER_SECONDS
    while raw.execute(_OLDER_READERS, (now,)).fetchall() != [(0,)]:
        if time.monotonic() > end:
            return False
        time.sleep(0.01)
    return True


def _prepare(connection: psycopg.Connection) -> None:
    migrate(connection)
    if connection.execute("SHOW fsync").fetchone() != ("on",):
        log.warning("the database runs with fsync off: a power cut loses enrollments")
