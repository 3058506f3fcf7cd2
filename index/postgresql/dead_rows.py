"""Removes old versions of rows from a table's files, so that what was erased is gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from index.gallery.schema.postgresql import HOLD_LOCK, RELEASE_LOCK
from index.postgresql.pool import SESSION, Pool
from model.errors import GalleryUnavailable

FULL_BYTES = 256 << 20
"""Size in bytes up to which the whole table is rewritten. Larger ones are vacuumed in place, which
leaves old bytes in a page until a new row takes their place."""
READER_SECONDS = 1.0
"""Longest wait for readers that still see what was erased."""

_OLDER_READERS = """
SELECT count(*) FROM (
    SELECT backend_xmin AS seen FROM pg_stat_activity
        WHERE pid <> pg_backend_pid() AND (datname IS NULL OR datname = current_database())
    UNION ALL SELECT xmin FROM pg_replication_slots
    UNION ALL SELECT transaction FROM pg_prepared_xacts WHERE database = current_database()
) AS readers WHERE age(seen) > age(%s::xid)
"""


def remove_dead_rows(pool: Pool, table: str) -> bool:
    """Removes the dead rows of a table.

    Returns:
        False if the role lacks the permission or a long transaction still needs the rows.
    """
    try:
        with pool.connection() as raw, _without_writers(raw):
            if not _wait_for_readers(raw):
                return False
            ((size,),) = raw.execute(f"SELECT pg_total_relation_size('{table}')").fetchall()
            raw.execute(f"VACUUM (FULL) {table}" if size < FULL_BYTES else f"VACUUM {table}")
    except GalleryUnavailable:
        return False
    return True


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
