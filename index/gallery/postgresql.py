"""The gallery in PostgreSQL: many servers read, one writes at a time, every commit on disk."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg_pool import ConnectionPool, PoolClosed, PoolTimeout

from index.gallery.database import MetaValue, Writer
from index.gallery.listener import ChangeListener
from index.gallery.schema.postgresql import LOCK, migrate
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

SESSION = {
    "statement_timeout": "60s",
    "lock_timeout": "30s",
    "idle_in_transaction_session_timeout": "1h",
    # A server that vanished without a word must not hold the write lock for long.
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
CONNECT = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5,
           "keepalives_count": 3, "application_name": "face-gallery"}  # fmt: skip
POOL = 12
POOL_SECONDS = 5.0
ROWS_AT_ONCE = 100
VACUUM_FULL_BYTES = 256 << 20
"""Size up to which the table of secrets is written anew after an erasure."""

_HINTS = {
    "08": "start the database or check the address, and try again",
    "28": "check the user and the password",
    "3D": "create the database first",
    "42501": "the role needs the right to create and change tables in the schema",
    "53100": "the disk is full; free some space and try again",
    "53300": "allow more connections, or start fewer servers",
    "55P03": "another server is writing; try again",
    "57014": "the database took too long; try again",
    "57P": "the database is starting or stopping; try again",
    "25006": "this is a read-only standby; name the primary server",
}
"""What to do about an error, by its SQLSTATE or its class."""

_VALUES = re.compile(r"VALUES (\([?, ]+\))")


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    # Values and answers travel in binary form: most of them are sealed bytes.
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
        """Many rows in one statement, which saves the way to the server and back for each."""
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
        url: ``postgresql://user@host/name``, with the options of libpq; what it leaves out comes
            from the usual variables such as ``PGPASSWORD`` and ``PGSSLMODE``.

    Raises:
        GalleryUnavailable: If the server cannot be reached or refuses; so for every method.
    """

    def __init__(self, url: str) -> None:
        self._conninfo = make_conninfo(url, **{**CONNECT, **_given(url)})
        parts = conninfo_to_dict(url)
        self.name = f"postgresql://{parts.get('host', '')}/{parts.get('dbname', '')}"
        self.start_over = "drop the database and create it again while no program uses it"
        self._writer: Writer[PostgresConnection] = Writer(
            self._begin,
            run=lambda connection, sql: connection.raw.execute(sql),
            broken=lambda connection: connection.raw.closed,
            give_back=lambda connection: self._pool.putconn(connection.raw),
        )
        with self._explained():
            with psycopg.connect(self._conninfo, autocommit=True) as first:
                _configure(first)
                migrate(first)
                if first.execute("SHOW fsync").fetchone() != ("on",):
                    log.warning("the database runs with fsync off: a power cut loses enrollments")
            self._pool = ConnectionPool(
                self._conninfo,
                kwargs={"autocommit": True},
                configure=_configure,
                min_size=1,
                max_size=POOL,
                timeout=POOL_SECONDS,
                max_idle=300,
                open=True,
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
        with self._explained(), self._pool.connection() as raw:
            yield PostgresConnection(raw)

    @contextmanager
    def write(self) -> Iterator[PostgresConnection]:
        with self._explained(), self._writer.transaction() as connection:
            yield connection

    def _begin(self) -> PostgresConnection:
        raw = self._pool.getconn()
        try:
            # Each statement after the lock sees what the last writer committed.
            raw.execute("BEGIN ISOLATION LEVEL READ COMMITTED")
            raw.execute(LOCK)
        except BaseException:
            if not raw.closed:
                raw.execute("ROLLBACK")
            self._pool.putconn(raw)
            raise
        return PostgresConnection(raw)

    def scrub(self) -> bool:
        """Removes dead rows of secrets; see ``index/README.md`` for what the log keeps.

        Returns:
            False if this role may not, or a long transaction still needs them.
        """
        try:
            with self._explained(), self._pool.connection() as raw:
                (size,) = raw.execute("SELECT pg_total_relation_size('secrets')").fetchone()
                raw.execute(
                    "VACUUM (FULL) secrets" if size < VACUUM_FULL_BYTES else "VACUUM secrets"
                )
        except GalleryUnavailable:
            return False
        return True

    def listen(self, action: Callable[[], object]) -> ChangeListener:
        return ChangeListener(self._conninfo, action)

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except psycopg.IntegrityError:
            raise
        except psycopg.DataError as error:
            raise ValueError(str(error)) from error
        except PoolClosed as error:
            raise GalleryUnavailable("The gallery was closed; open it again.") from error
        except (psycopg.Error, PoolTimeout) as error:
            log.error("the gallery %s failed: %s", self.name, error)
            state = getattr(error, "sqlstate", None) or "08000"
            hints = (_HINTS.get(state[:length]) for length in (5, 3, 2))
            hint = next(filter(None, hints), "see the server's log for the cause")
            if state.startswith(("08", "57P")) and hasattr(self, "_pool"):
                # The other idle connections are likely to be broken as well.
                self._pool.check()
            # Messages reach clients of the API, whom the database's address does not concern.
            cause = f"{type(error).__name__}, SQLSTATE {state}"
            raise GalleryUnavailable(f"The gallery's database failed ({cause}): {hint}.") from error


def _given(url: str) -> dict[str, Any]:
    """The options an address names itself."""
    return {name: value for name, value in conninfo_to_dict(url).items() if value is not None}


def _configure(connection: psycopg.Connection) -> None:
    for name, value in SESSION.items():
        connection.execute("SELECT set_config(%s, %s, false)", (name, value))
    # A stricter setting, such as remote_apply, is left as it is.
    connection.execute(
        "SELECT set_config('synchronous_commit', 'on', false) "
        "WHERE current_setting('synchronous_commit') = 'off'"
    )
