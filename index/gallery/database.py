"""The database interface of the gallery; :mod:`sqlite` and :mod:`postgresql` implement it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

MetaValue = str | int | bytes

TABLES = {
    "secrets": ("id", "value"),
    "people": ("number", "id", "secret", "name_tag", "profile", "created", "updated"),
    "photos": ("id", "person", "secret", "hash_tag", "quality", "details", "created"),
    "embeddings": ("photo", "model_id", "vector"),
    "thumbnails": ("photo", "image"),
    "changes": ("seq", "operation", "photo", "token"),
}
"""Columns of the tables that grow, the primary key first; tables follow those they refer to."""


class Rows(Protocol):
    """The result of one statement."""

    @property
    def rowcount(self) -> int: ...

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside a read or a write. Statements use ``?`` as placeholder.

    Attributes:
        any_number: SQL to follow ``WHERE column``: the column is in an :meth:`array` of numbers.
        any_text: The same for an array of texts.
    """

    any_number: str
    any_text: str

    def array(self, values: Iterable[int] | Iterable[str]) -> Any:
        """Packs several values into the one parameter of ``any_number`` or ``any_text``."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Runs one statement."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Any:
        """Runs one statement for each row of values."""

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> list[int]:
        """Adds rows without their number to one of `TABLES`; returns the new numbers in order."""

    def append(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        """Adds whole rows to one of `TABLES`."""

    def pack(self, value: MetaValue) -> Any:
        """Encodes a value for the table ``meta``."""

    def unpack(self, stored: Any) -> MetaValue:
        """Decodes a value of the table ``meta``."""


class Listener(Protocol):
    """A background listener that can be closed."""

    def close(self) -> None: ...


class Database(Protocol):
    """Many readers, one writer, every commit durable. Thread-safe.

    Every method raises ``GalleryUnavailable`` if the database cannot be used right now.

    Attributes:
        name: The database's name in messages, without passwords.
        start_over: Instruction for replacing an empty gallery, for messages.
    """

    name: str
    start_over: str

    @property
    def writing(self) -> bool:
        """Whether the calling thread is inside :meth:`write`."""

    def read(self, committed: bool = False) -> AbstractContextManager[Connection]:
        """A connection to read from; each statement sees one consistent state.

        Args:
            committed: Inside a write, ignore its uncommitted changes.
        """

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction: durable when the block ends, rolled back if it raises.

        There is one writer at a time across all processes. A nested write in the same thread is a
        savepoint.
        """

    def scrub(self) -> bool:
        """Removes old versions of overwritten rows; returns False if some are still in use."""

    def listen(self, action: Callable[[], object]) -> Listener | None:
        """Calls an action in a thread when photos change; None if there are no notifications."""

    def close(self) -> None:
        """Closes every connection that is not in use."""


class Transaction(Protocol):
    """Ends a transaction or a part of it."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def savepoint(self, name: str) -> None: ...

    def release(self, name: str) -> None: ...

    def rollback_to(self, name: str) -> None: ...


C = TypeVar("C", bound=Transaction)


class Writer(Generic[C]):
    """The single write transaction of a process, with savepoints for nested writes.

    Args:
        begin: Borrows a connection and starts a transaction, waiting for other processes.
        broken: Whether the database has already ended the transaction.
        give_back: Returns a connection.
    """

    def __init__(
        self,
        begin: Callable[[], C],
        broken: Callable[[C], bool],
        give_back: Callable[[C], None],
    ) -> None:
        self._begin, self._broken, self._give_back = begin, broken, give_back
        self.lock = threading.RLock()
        self._connection: C | None = None
        self._thread: int | None = None
        self._depth = 0

    @property
    def connection(self) -> C | None:
        """The connection of the calling thread's transaction, or None."""
        return self._connection if self._thread == threading.get_ident() else None

    @contextmanager
    def transaction(self) -> Iterator[C]:
        """Commits when the block ends; rolls back if it raises."""
        with self.lock:
            if self._connection is None:
                self._connection, self._thread = self._begin(), threading.get_ident()
            connection, savepoint = self._connection, f"level{self._depth}"
            if self._depth:
                connection.savepoint(savepoint)
            self._depth += 1
            try:
                yield connection
                if self._depth == 1:
                    connection.commit()
                else:
                    connection.release(savepoint)
            except BaseException:
                # SQLite rolls back by itself when the disk is full.
                if not self._broken(connection):
                    if self._depth == 1:
                        connection.rollback()
                    else:
                        connection.rollback_to(savepoint)
                        connection.release(savepoint)
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._connection = self._thread = None
                    self._give_back(connection)
