"""A connection to the gallery's tables that sends new rows together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import lru_cache
from typing import Any

import psycopg
from psycopg.pq import PipelineStatus

from index.gallery.database import TABLES, MetaValue

QUEUE_ROWS = 2000
"""Rows that may wait; more are sent, and the server stores them while others are prepared."""

FIRST_NUMBERS, MORE_NUMBERS = 64, 4096
"""Row numbers of a table that a transaction reserves at first, and whenever it needs more. A commit
gives the rest back."""

_TYPES = {
    "secrets": "bigint bytea",
    "people": "bigint text bigint bytea bytea float8 float8",
    "photos": "bigint bigint bigint bytea float8 bytea float8",
    "embeddings": "bigint text bytea",
    "thumbnails": "bigint bytea",
    "changes": "bigint text bigint bigint",
}
_SEQUENCES = {
    table: f"pg_get_serial_sequence('{table}', '{TABLES[table][0]}')"
    for table in ("secrets", "people", "photos")
}
# Only a writer takes numbers, and there is one writer at a time.
_RESERVE = "SELECT (SELECT COALESCE(MAX(seq), 0) FROM changes), " + ", ".join(
    f"setval({name}, nextval({name}) + %b::bigint - 1)" for name in _SEQUENCES.values()
)
_GIVE_BACK = {
    table: f"SELECT setval({name}, %b::bigint, false)" for table, name in _SEQUENCES.items()
}

Statement = tuple[str, Sequence[Any]]
Queue = dict[str, list[Sequence[Any]]]


@lru_cache(maxsize=512)
def _translated(sql: str) -> str:
    # Binary parameters and results: most of them are encrypted bytes.
    return sql.replace("?", "%b")


def _insertion(table: str) -> str:
    """Inserts any number of rows, given as one array for each column."""
    arrays = ", ".join(f"%b::{kind}[]" for kind in _TYPES[table].split())
    columns = ", ".join(TABLES[table])
    return f"INSERT INTO {table} ({columns}) OVERRIDING SYSTEM VALUE SELECT * FROM unnest({arrays})"


_INSERTIONS = {table: _insertion(table) for table in TABLES}


class PostgresConnection:
    """A :class:`~index.gallery.database.Connection` to PostgreSQL.

    New rows wait in a queue until another statement or the commit needs them, so that a batch of
    enrollments takes a few round trips. A savepoint that no statement has followed lives in the
    queue alone.

    Args:
        raw: A connection in autocommit mode.
    """

    any_number = "= ANY(?::bigint[])"
    any_text = "= ANY(?::text[])"

    def __init__(self, raw: psycopg.Connection) -> None:
        self.raw = raw
        self._queue: Queue = {}
        self._waiting: list[tuple[Queue, str, range | None]] = []
        self._numbers: dict[str, range] = {}
        self._pipeline = ExitStack()

    def array(self, values: Iterable[int] | Iterable[str]) -> list[Any]:
        return list(values)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> psycopg.Cursor:
        self._send()
        return self.raw.execute(_translated(sql), values, binary=True)

    def executemany(self, sql: str, rows: Sequence[Sequence[Any]]) -> None:
        self._send()
        with self.raw.cursor() as cursor:
            cursor.executemany(_translated(sql), rows)

    def insert(self, table: str, rows: Sequence[Sequence[Any]]) -> list[int]:
        numbers = self._reserve(table, len(rows))
        self.append(table, [(number, *row) for number, row in zip(numbers, rows, strict=True)])
        return numbers

    def append(self, table: str, rows: Sequence[Sequence[Any]]) -> None:
        if rows:
            self._queue.setdefault(table, []).extend(rows)
        if not self._waiting and sum(map(len, self._queue.values())) > QUEUE_ROWS:
            self._send(wait=False)

    def pack(self, value: MetaValue) -> bytes:
        if isinstance(value, bytes):
            return b"b" + value
        return b"i%d" % value if isinstance(value, int) else b"t" + value.encode()

    def unpack(self, stored: bytes) -> MetaValue:
        kind, content = stored[:1], stored[1:]
        if kind == b"b":
            return content
        return int(content) if kind == b"i" else content.decode()

    def savepoint(self, name: str) -> None:
        self._waiting.append((self._queue, name, self._numbers.get("changes")))
        self._queue = {}

    def release(self, name: str) -> None:
        if not self._waiting:
            self._send()
            self.raw.execute(f"RELEASE {name}")
            return
        newer, (self._queue, *_) = self._queue, self._waiting.pop()
        for table, rows in newer.items():
            self.append(table, rows)

    def rollback_to(self, name: str) -> None:
        self._queue = {}
        # The log has no gaps: its numbers are taken again.
        self._numbers.pop("changes", None)
        if not self._waiting:
            self._abandon()
            self.raw.execute(f"ROLLBACK TO {name}")
        elif (numbers := self._waiting[-1][2]) is not None:
            self._numbers["changes"] = numbers

    def commit(self) -> None:
        unused = [
            (_GIVE_BACK[t], (self._numbers[t].start,)) for t in _SEQUENCES if t in self._numbers
        ]
        ended = self._send(*unused, ("COMMIT", ()))
        # After a failed statement that the caller passed over, PostgreSQL rolls back instead.
        if ended is None or ended.statusmessage != "COMMIT":
            raise psycopg.errors.InFailedSqlTransaction("the transaction was rolled back")

    def rollback(self) -> None:
        self._queue, self._waiting = {}, []
        self._abandon()
        self.raw.execute("ROLLBACK")

    def _abandon(self) -> None:
        """Ends a pipeline whose statements will be rolled back."""
        with suppress(psycopg.Error):
            self._pipeline.close()

    def _reserve(self, table: str, count: int) -> list[int]:
        """Takes row numbers from a block; a larger one follows the first."""
        if count > len(self._numbers.get(table, ())):
            block = max(count, MORE_NUMBERS if table in self._numbers else FIRST_NUMBERS)
            last, *ends = self.raw.execute(_RESERVE, [block] * len(_SEQUENCES)).fetchone() or ()
            for name, end in zip(_SEQUENCES, ends, strict=True):
                # A second block continues the first: nobody else takes numbers meanwhile.
                known = self._numbers.get(name, range(end - block + 1, end + 1))
                self._numbers[name] = range(known.start, end + 1)
            self._numbers.setdefault("changes", range(last + 1, 1 << 62))
        numbers = self._numbers.get(table, range(0))
        self._numbers[table] = numbers[count:]
        return list(numbers[:count])

    def _send(self, *following: Statement, wait: bool = True) -> psycopg.Cursor | None:
        """Sends what waits, and the statements that follow it, in one round trip.

        Args:
            following: More statements.
            wait: Wait until the server has done all of it, and raise its errors.

        Returns:
            The cursor of the last statement; None if there was none.
        """
        statements: list[Statement] = []
        for queue, savepoint, _ in (*self._waiting, (self._queue, None, None)):
            for table in filter(queue.get, TABLES):
                columns = map(list, zip(*queue[table], strict=True))
                statements.append((_INSERTIONS[table], list(columns)))
            if savepoint:
                statements.append((f"SAVEPOINT {savepoint}", ()))
        statements += following
        self._queue, self._waiting = {}, []
        if self.raw.pgconn.pipeline_status == PipelineStatus.OFF and (
            len(statements) > 1 or not wait
        ):
            self._pipeline.enter_context(self.raw.pipeline())
        last = None
        for sql, values in statements:
            last = self.raw.execute(sql, values)
        if wait:
            self._pipeline.close()
        return last
