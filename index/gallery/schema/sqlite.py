"""The gallery's tables in SQLite, and their migrations."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from index.gallery.schema import require_known

_V1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;

-- Rows here are only ever appended and overwritten in place by a value of the same length, so
-- SQLite never copies one to another page and an overwritten secret leaves no trace.
CREATE TABLE secrets (id INTEGER PRIMARY KEY AUTOINCREMENT, value BLOB NOT NULL);

CREATE TABLE people (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    secret INTEGER NOT NULL REFERENCES secrets (id),
    name_tag BLOB NOT NULL,
    profile BLOB NOT NULL,
    created REAL NOT NULL,
    updated REAL NOT NULL
);
CREATE INDEX people_by_name ON people (name_tag);

CREATE TABLE photos (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    person INTEGER NOT NULL REFERENCES people (number),
    secret INTEGER NOT NULL REFERENCES secrets (id),
    hash_tag BLOB NOT NULL,
    quality REAL,
    details BLOB NOT NULL,
    created REAL NOT NULL
);
CREATE INDEX photos_by_person ON photos (person);
CREATE INDEX photos_by_hash ON photos (hash_tag);

CREATE TABLE embeddings (
    photo INTEGER PRIMARY KEY REFERENCES photos (id) ON DELETE CASCADE,
    model_id TEXT NOT NULL,
    vector BLOB NOT NULL
);
CREATE TABLE thumbnails (
    photo INTEGER PRIMARY KEY REFERENCES photos (id) ON DELETE CASCADE,
    image BLOB NOT NULL
);

CREATE TABLE changes (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    operation TEXT NOT NULL CHECK (operation IN ('put', 'drop')),
    photo INTEGER NOT NULL,
    token INTEGER NOT NULL
);

CREATE TABLE counts (people INTEGER NOT NULL, photos INTEGER NOT NULL);
INSERT INTO counts VALUES (0, 0);
CREATE TRIGGER person_added AFTER INSERT ON people
BEGIN UPDATE counts SET people = people + 1; END;
CREATE TRIGGER person_removed AFTER DELETE ON people
BEGIN UPDATE counts SET people = people - 1; END;
CREATE TRIGGER photo_added AFTER INSERT ON photos
BEGIN UPDATE counts SET photos = photos + 1; END;
CREATE TRIGGER photo_removed AFTER DELETE ON photos
BEGIN UPDATE counts SET photos = photos - 1; END;
"""

MIGRATIONS: tuple[str, ...] = (_V1,)
"""Scripts that migrate from version ``i`` to ``i + 1``; append, never edit."""


def migrate(connection: sqlite3.Connection, migrations: Sequence[str] = MIGRATIONS) -> int:
    """Migrates a database to the newest schema; each step is one transaction.

    Args:
        migrations: The migration scripts; ``user_version`` counts those already applied.

    Returns:
        The version before the migration; 0 for a new file.

    Raises:
        GalleryError: If the file was written by a newer program.
    """
    found = connection.execute("PRAGMA user_version").fetchone()[0]
    require_known(found, len(migrations))
    for version in range(found, len(migrations)):
        connection.execute("BEGIN IMMEDIATE")
        try:
            # Another process may have run this step while we waited for the lock.
            if connection.execute("PRAGMA user_version").fetchone()[0] == version:
                for statement in _statements(migrations[version]):
                    connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {version + 1}")
            connection.execute("COMMIT")
        except BaseException:
            connection.execute("ROLLBACK")
            raise
    return found


def _statements(script: str) -> list[str]:
    """Splits a script into statements; ``executescript`` would commit the open transaction."""
    statements, current = [], ""
    for line in script.splitlines(keepends=True):
        current += line
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements
