"""The gallery in PostgreSQL: many servers read, one writes at a time, every commit durable."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from index.gallery.database import MetaValue, Writer
from index.gallery.schema.postgresql import CHANGES, LOCK, migrate
from index.postgresql.listener import ChangeListener
from index.postgresql.pool import Pool
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

POOL = 12
ROWS_AT_ONCE = 100
VACUUM_FULL_BYTES = 256 << 20
"""Size in bytes up to which an erasure rewrites the whole table of secrets."""

_VALUES = re.compile(r"VALUES (\([?, ]+\))")


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    # Binary parameters and results: most of them are encrypted bytes.
    return sql.replace("?", "%b")


class PostgresConnection:
    """A :class:`~index.gallery.database.Connection` to PostgreSQL.

    Args:
        raw: A connection in autocommit mode.
    """

    any_number = "= ANY(?::bigint[])"
    any_text = "= ANY(?::text[])"

    def __init__(self, raw: psycopg.Connection) -> None:
        self.raw = raw

    def array(self, values: Iterable[int] | Iterable[str]) -> list[Any]:
        return list(values)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        return self.raw.execute(_translated(sql), values, binary=True)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        if _VALUES.search(sql):
            for _ in self._in_parts(sql, rows):
                pass
        elif rows:
            with self.raw.cursor() as cursor:
                cursor.executemany(_translated(sql), rows)

    def insert(self, sql: str, rows: Sequence[Sequence[Any]]) -> list[int]:
        return [row[0] for cursor in self._in_parts(sql, rows) for row in cursor.fetchall()]

    def _in_parts(self, sql: str, rows: Sequence[Sequence[Any]]) -> Iterator[psycopg.Cursor]:
        """Inserts many rows per statement, to save a round trip for each."""
        for start in range(0, len(rows), ROWS_AT_ONCE):
            part = rows[start : start + ROWS_AT_ONCE]
            many = _VALUES.sub(lambda found: "VALUES " + ", ".join([found[1]] * len(part)), sql)  # noqa: B023
            yield self.execute(many, [value for row in part for value in row])

    def pack(self, value: MetaValue) -> bytes:
        if isinstance(value, bytes):
            return b"b" + value
        return b"i%d" % value if isinstance(value, int) else b"t" + value.encode()

    def unpack(self, stored: bytes) -> MetaValue:
        kind, content = stored[:1], stored[1:]
        if kind == b"b":
            return content
        return int(content) if kind == b"i" else content.decode()


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
            run=lambda connection, sql: connection.raw.execute(sql),
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
            raw.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            raw.execute(LOCK)
        except BaseException:
            if not raw.closed:
                raw.execute("ROLLBACK")
            self._pool.give_back(raw)
            raise
        return PostgresConnection(raw)

    def scrub(self) -> bool:
        """Removes dead rows of secrets; ``index/README.md`` describes what the log keeps.

        Returns:
            False if the role lacks the permission or a long transaction still needs the rows.
        """
        try:
            with self._pool.connection() as raw:
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


def _prepare(connection: psycopg.Connection) -> None:
    migrate(connection)
    if connection.execute("SHOW fsync").fetchone() != ("on",):
        log.warning("the database runs with fsync off: a power cut loses enrollments")
