"""What a gallery asks of its database; :mod:`sqlite` and :mod:`postgresql` provide it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Generic, Protocol, TypeVar

MetaValue = str | int | bytes


class Rows(Protocol):
    """The answer to one statement."""

    rowcount: int

    def fetchone(self) -> Any: ...

    def fetchall(self) -> list[Any]: ...

    def __iter__(self) -> Iterator[Any]: ...


class Connection(Protocol):
    """A connection inside a read or a write. Statements mark values with ``?``.

    Attributes:
        any_number: Ends ``WHERE column``: the column is among the numbers of an :meth:`array`.
        any_text: The same for texts.
    """

    any_number: str
    any_text: str

    def array(self, values: Iterable[int] | Iterable[str]) -> Any:
        """Several values as the one that ``any_number`` or ``any_text`` takes."""

    def execute(self, sql: str, values: Sequence[Any] = (), /) -> Rows:
        """Runs one statement."""

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]], /) -> Any:
        """Runs one statement for each row of values."""

    def insert(self, sql: str, rows: Sequence[Sequence[Any]]) -> list[int]:
        """Runs an ``INSERT ... RETURNING number`` for each row; returns the numbers in order."""

    def pack(self, value: MetaValue) -> Any:
        """A value in the form the table ``meta`` stores it in."""

    def unpack(self, stored: Any) -> MetaValue:
        """The value behind its stored form."""


class Listener(Protocol):
    """Work in the background that can be ended."""

    def close(self) -> None: ...


class Database(Protocol):
    """Many readers, one writer, every commit on disk. Safe to use from any thread.

    Every method raises ``GalleryUnavailable`` if the database cannot be used right now.

    Attributes:
        name: The database in messages, without passwords.
        start_over: What to do to start a new gallery in place of an empty one.
    """

    name: str
    start_over: str

    @property
    def writing(self) -> bool:
        """Whether the calling thread is inside :meth:`write`."""

    def read(self, committed: bool = False) -> AbstractContextManager[Connection]:
        """A connection to read from; each statement sees one consistent state.

        Args:
            committed: Inside a write, leave out what it has not committed yet.
        """

    def write(self) -> AbstractContextManager[Connection]:
        """A transaction: on disk when the block ends, undone when it raises.

        There is one writer at a time, in all processes. In the same thread, a write inside a
        write is a savepoint of it.
        """

    def scrub(self) -> bool:
        """Removes old versions of overwritten rows; returns False if some must stay for now."""

    def listen(self, action: Callable[[], object]) -> Listener | None:
        """Calls an action in a thread whenever photos changed; None where nobody announces it."""

    def close(self) -> None:
        """Closes every connection that is not in use."""


C = TypeVar("C")


class Writer(Generic[C]):
    """The one write transaction of a process, with savepoints for writes inside it.

    Args:
        begin: Borrows a connection and starts a transaction that waits for other processes.
        run: Runs a statement that takes no values.
        broken: Whether the database has ended the transaction on its own.
        give_back: Takes a connection back.
    """

    def __init__(
        self,
        begin: Callable[[], C],
        run: Callable[[C, str], object],
        broken: Callable[[C], bool],
        give_back: Callable[[C], None],
    ) -> None:
        self._begin, self._run, self._broken, self._give_back = begin, run, broken, give_back
        self.lock = threading.RLock()
        self._connection: C | None = None
        self._thread: int | None = None
        self._depth = 0

    @property
    def connection(self) -> C | None:
        """The connection of the calling thread's transaction, or None outside of one."""
        return self._connection if self._thread == threading.get_ident() else None

    @contextmanager
    def transaction(self) -> Iterator[C]:
        """Commits when the block ends, undoes it when it raises."""
        with self.lock:
            if self._connection is None:
                self._connection, self._thread = self._begin(), threading.get_ident()
            connection, savepoint = self._connection, f"level{self._depth}"
            if self._depth:
                self._run(connection, f"SAVEPOINT {savepoint}")
            self._depth += 1
            try:
                yield connection
                self._run(connection, "COMMIT" if self._depth == 1 else f"RELEASE {savepoint}")
            except BaseException:
                # A full disk makes SQLite roll back on its own.
                if not self._broken(connection):
                    if self._depth > 1:
                        self._run(connection, f"ROLLBACK TO {savepoint}")
                    self._run(
                        connection, "ROLLBACK" if self._depth == 1 else f"RELEASE {savepoint}"
                    )
                raise
            finally:
                self._depth -= 1
                if self._depth == 0:
                    self._connection = self._thread = None
                    self._give_back(connection)
