"""Connections to the gallery's SQLite file: many readers, one writer, every commit on disk."""

from __future__ import annotations

import logging
import os
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from index.gallery.schema import migrate
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)


class Database:
    """A SQLite file in WAL mode, safe to use from any thread and several processes.

    Readers borrow a connection from a pool and see one consistent snapshot. A writer holds the
    only write transaction; in the same thread, a write inside a write is a savepoint of it.

    Args:
        path: The database file; created, readable by its owner only, if it is missing.
        timeout: Seconds to wait for another process's write.

    Raises:
        GalleryUnavailable: If the file is locked, damaged or cannot be written, or the disk is
            full; so for every method.
    """

    def __init__(self, path: Path, timeout: float = 30.0) -> None:
        self.path = path
        self._timeout = timeout
        self._pool: list[sqlite3.Connection] = []
        self._pool_lock = threading.Lock()
        self._write_lock = threading.RLock()
        self._writer: sqlite3.Connection | None = None
        self._writer_thread: int | None = None
        self._depth = 0
        self._closed = False
        try:
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            hint = "check the folder's permissions and the disk's free space"
            raise self._unavailable(str(error.strerror), hint) from error
        with self._explained():
            connection = self._connect()
            migrate(connection)
            self._pool.append(connection)

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False
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
        """Whether the calling thread is inside :meth:`write`."""
        return self._writer_thread == threading.get_ident()

    @contextmanager
    def read(self, committed: bool = False) -> Iterator[sqlite3.Connection]:
        """A snapshot to read from.

        Args:
            committed: Inside a write, leave out what it has not committed yet.
        """
        if self.writing and not committed:
            assert self._writer is not None
            yield self._writer
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
    def write(self) -> Iterator[sqlite3.Connection]:
        """A transaction: on disk when the block ends, undone when it raises."""
        with self._write_lock, self._explained():
            if self._depth == 0:
                self._writer = self._borrow()
                try:
                    self._writer.execute("BEGIN IMMEDIATE")
                except BaseException:
                    self._give_back(self._writer)
                    raise
                self._writer_thread = threading.get_ident()
            connection, name = self._writer, f"level{self._depth}"
            if self._depth:
                connection.execute(f"SAVEPOINT {name}")
            self._depth += 1
            try:
                yield connection
                connection.execute("COMMIT" if self._depth == 1 else f"RELEASE {name}")
            except BaseException:
                # A full disk makes SQLite roll back on its own.
                if connection.in_transaction:
                    if self._depth == 1:
                        connection.execute("ROLLBACK")
                    else:
                        connection.execute(f"ROLLBACK TO {name}")
                        connection.execute(f"RELEASE {name}")
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._writer_thread = None
                    self._writer = None
                    self._give_back(connection)

    def truncate_log(self, timeout: float = 5.0) -> bool:
        """Moves the write-ahead log into the main file and empties it.

        Args:
            timeout: Seconds to wait for readers of older pages.

        Returns:
            False when a reader kept the log in use.
        """
        with self._write_lock, self._explained():
            connection = self._borrow()
            try:
                connection.execute(f"PRAGMA busy_timeout = {int(timeout * 1000)}")
                try:
                    busy = connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
                except sqlite3.OperationalError as error:
                    if "locked" not in str(error):
                        raise
                    busy = 1
                connection.execute(f"PRAGMA busy_timeout = {int(self._timeout * 1000)}")
                return not busy
            finally:
                self._give_back(connection)

    def close(self) -> None:
        """Closes every connection that is not in use."""
        with self._pool_lock:
            self._closed = True
            for connection in self._pool:
                connection.close()
            self._pool.clear()

    def _borrow(self) -> sqlite3.Connection:
        with self._pool_lock:
            if self._closed:
                raise GalleryUnavailable("The gallery was closed; open it again.")
            if self._pool:
                return self._pool.pop()
        return self._connect()

    def _give_back(self, connection: sqlite3.Connection) -> None:
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
            text = str(error)
            if "locked" in text or "busy" in text:
                hint = "another process is writing; try again"
            elif "full" in text:
                hint = "the disk is full; free some space and try again"
            elif "not a database" in text or "malformed" in text:
                hint = "the file is damaged; restore it from an export"
            elif "readonly" in text or "unable to open" in text:
                hint = "check the folder's permissions"
            else:
                hint = "see the error for the cause"
            raise self._unavailable(text, hint) from error

    def _unavailable(self, cause: str, hint: str) -> GalleryUnavailable:
        # Messages reach clients of the API, whom the server's folders do not concern.
        log.error("the gallery %s failed: %s", self.path, cause)
        return GalleryUnavailable(f"The gallery's file {self.path.name} failed: {cause}; {hint}.")
