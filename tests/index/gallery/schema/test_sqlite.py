from __future__ import annotations

import sqlite3

import pytest

from index.gallery.schema.sqlite import MIGRATIONS, migrate
from model.errors import GalleryError


def connect() -> sqlite3.Connection:
    return sqlite3.connect(":memory:", isolation_level=None)


def version(connection: sqlite3.Connection) -> int:
    return connection.execute("PRAGMA user_version").fetchone()[0]


def test_new_file_gets_every_step_and_a_second_run_none() -> None:
    connection = connect()
    assert migrate(connection) == 0
    assert version(connection) == len(MIGRATIONS)
    assert migrate(connection) == len(MIGRATIONS)


def test_old_file_keeps_its_rows_through_a_later_step() -> None:
    connection = connect()
    migrate(connection)
    connection.execute("INSERT INTO secrets (value) VALUES (x'00ff')")
    later = (
        *MIGRATIONS,
        "ALTER TABLE secrets ADD COLUMN kind TEXT NOT NULL DEFAULT 'photo';\n"
        "CREATE TABLE extra (a INTEGER);\n",
    )
    assert migrate(connection, later) == len(MIGRATIONS)
    assert version(connection) == len(later)
    assert connection.execute("SELECT value, kind FROM secrets").fetchall() == [
        (b"\x00\xff", "photo")
    ]


def test_failing_step_is_undone_as_a_whole() -> None:
    connection = connect()
    broken = (*MIGRATIONS, "CREATE TABLE extra (a INTEGER);\nINSERT INTO nowhere VALUES (1);\n")
    with pytest.raises(sqlite3.OperationalError):
        migrate(connection, broken)
    assert version(connection) == len(MIGRATIONS)
    tables = connection.execute("SELECT name FROM sqlite_master WHERE name = 'extra'").fetchall()
    assert tables == []


def test_newer_file_is_refused() -> None:
    connection = connect()
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    with pytest.raises(GalleryError, match="newer"):
        migrate(connection)
