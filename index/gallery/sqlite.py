"""The gallery in a SQLite file: many readers, one writer, every commit durable."""

from __future__ import annotations

import json
import logging
import os
import sqlite3
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from index.gallery.database import TABLES, MetaValue, Writer
from index.gallery.schema.sqlite import migrate
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

_HINTS = {
    sqlite3.SQLITE_BUSY: "another process is writing; try again",
    sqlite3.SQLITE_LOCKED: "another process is writing; try again",
    sqlite3.SQLITE_FULL: "the disk is full; free some space and try again",
    sqlite3.SQLITE_NOTADB: "the file is damaged; restore it from an export",
    sqlite3.SQLITE_CORRUPT: "the file is damaged; restore it from an export",
    sqlite3.SQLITE_READONLY: "check the folder's permissions",
    sqlite3.SQLITE_CANTOPEN: "check the folder's permissions",
    sqlite3.SQLITE_PERM: "check the folder's permissions",
}
"""Advice by the primary error code."""


_INSERTIONS = {
    table: f"INSERT INTO {table} ({', '.join(names)}) VALUES ({', '.join('?' * len(names))})"
    for table, names in TABLES.items()
}


class SqliteConnection(sqlite3.Connection):
    """A :class:`~index.gallery.database.Connection` to a SQLite file."""

    any_number = any_text = "IN (SELECT value FROM json_each(?))"

    def array(self, values: Iterable[int] | Iterable[str]) -> str:
        return json.dumps(list(values))

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> list[int]:
        return [self.execute(_INSERTIONS[table], (None, *row)).lastrowid or 0 for row in rows]

    def append(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        self.executemany(_INSERTIONS[table], rows)

    def pack(self, value: MetaValue) -> MetaValue:
        return value

    def unpack(self, stored: MetaValue) -> MetaValue:
        return stored

    def savepoint(self, name: str) -> None:
        self.execute(f"SAVEPOINT {name}")

    def release(self, name: str) -> None:
        self.execute(f"RELEASE {name}")

    def rollback_to(self, name: str) -> None:
        self.execute(f"ROLLBACK TO {name}")


class SqliteDatabase:
    """A SQLite file in WAL mode; see :class:`~index.gallery.database.Database`.

    Args:
        path: The database file; created if missing, readable by its owner only.
        timeout: Seconds to wait for another process's write.

    Raises:
        GalleryUnavailable: If the file is locked, damaged or cannot be written, or the disk is
            full; applies to all methods.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self.path = path
        self.name = str(path)
        self.start_over = f"delete the folder {path.parent} while no program uses it"
        self._timeout = timeout
        self._pool: list[SqliteConnection] = []
        self._pool_lock = threading.Lock()
        self._closed = False
        self._writer: Writer[SqliteConnection] = Writer(
            self._begin,
            broken=lambda connection: not connection.in_transaction,
            give_back=self._give_back,
        )
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            hint = "check the folder's permissions and the disk's free space"
            raise self._unavailable(str(error.strerror), hint) from error
        with self._explained():
            connection = self._connect()
            migrate(connection)
            self._pool.append(connection)

    def _connect(self) -> SqliteConnection:
        connection = sqlite3.connect(
            self.path,
            timeout=self._timeout,
            isolation_level=None,
            check_same_thread=False,
            factory=SqliteConnection,
        )
        for pragma in (
            "journal_mode = WAL",
            "synchronous = FULL",
            "foreign_keys = ON",
            "secure_delete = ON",
            "temp_store = MEMORY",
        ):
            connection.execute(f"PRAGMA {pragma}")
        return connection

    @property
    def writing(self) -> bool:
        return self._writer.connection is not None

    @contextmanager
    def read(self, committed: bool = False) -> Iterator[SqliteConnection]:
        writer = self._writer.connection
        if writer is not None and not committed:
            yield writer
            return
        with self._explained():
            connection = self._borrow()
            try:
                connection.execute("BEGIN")
                yield connection
            finally:
                if connection.in_transaction:
                    connection.execute("COMMIT")
                self._give_back(connection)

    @contextmanager
    def write(self) -> Iterator[SqliteConnection]:
        with self._explained(), self._writer.transaction() as connection:
            yield connection

    def _begin(self) -> SqliteConnection:
        connection = self._borrow()
        try:
            connection.execute("BEGIN IMMEDIATE")
        except BaseException:
            self._give_back(connection)
            raise
        return connection

    def scrub(self, timeout: float = 5.0) -> bool:
        """Moves the write-ahead log into the main file and empties it.

        Args:
            timeout: Seconds to wait for readers of old pages.

        Returns:
            False if a reader still uses the log.
        """
        with self._writer.lock, self._explained():
            connection = self._borrow()
            try:
                connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
                try:
                    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                except sqlite3.OperationalError as error:
                    if _primary_code(error) not in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                        raise
                    busy = 1
                connection.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
                return not busy
            finally:
                self._give_back(connection)

    def listen(self, action: Callable[[], object]) -> None:
        """Returns None: each search polls the file instead, which takes microseconds."""

    def close(self) -> None:
        with self._pool_lock:
            self._closed = True
            for connection in self._pool:
                connection.close()
            self._pool.clear()

    def _borrow(self) -> SqliteConnection:
        with self._pool_lock:
            if self._closed:
                raise GalleryUnavailable("The gallery was closed; open it again.")
            if self._pool:
                return self._pool.pop()
        return self._connect()

    def _give_back(self, connection: SqliteConnection) -> None:
        with self._pool_lock:
            if self._closed:
                connection.close()
            else:
                self._pool.append(connection)

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.IntegrityError:
            raise
        except sqlite3.DatabaseError as error:
            hint = _HINTS.get(_primary_code(error), "see the error for the cause")
            cause = getattr(error, "sqlite_errorname", type(error).__name__)
            raise self._unavailable(f"{error} ({cause})", hint) from error

    def _unavailable(self, cause: str, hint: str) -> GalleryUnavailable:
        # API clients see the message, so it must not reveal the server's folders.
        log.error("the gallery %s failed: %s", self.path, cause)
        return GalleryUnavailable(f"The gallery's file {self.path.name} failed: {cause}; {hint}.")


def _primary_code(error: sqlite3.Error) -> int:
    """The primary error code; 0 for errors raised by the Python module itself."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF
