"""A database that cannot be used right now, in every way it can be so."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from index.gallery import Gallery
from index.gallery.sqlite import SqliteDatabase
from model.errors import GalleryError, GalleryUnavailable
from tests.index.helpers import MODEL, Faces


def write(database: SqliteDatabase) -> None:
    with database.write() as connection:
        connection.execute("INSERT INTO secrets (value) VALUES (zeroblob(1000000))")


def locked(path: Path) -> None:
    database = SqliteDatabase(path, timeout=0.05)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        write(database)
    finally:
        other.close()


def full(path: Path) -> None:
    database = SqliteDatabase(path)
    with database.read() as connection:
        connection.execute("PRAGMA max_page_count = 1")
    write(database)


def unwritable(path: Path) -> None:
    database = SqliteDatabase(path)
    with database.read() as connection:
        connection.execute("PRAGMA query_only = ON")
    write(database)


def damaged(path: Path) -> None:
    path.write_bytes(b"not a database at all" * 100)
    SqliteDatabase(path)


def no_file(path: Path) -> None:
    path.mkdir()
    SqliteDatabase(path)


def closed(path: Path) -> None:
    database = SqliteDatabase(path)
    database.close()
    write(database)


@pytest.mark.parametrize(
    ("fail", "hint"),
    [
        (locked, "SQLITE_BUSY.*another process is writing"),
        (full, "SQLITE_FULL.*the disk is full"),
        (unwritable, "SQLITE_READONLY.*permissions"),
        (damaged, "SQLITE_NOTADB.*restore it from an export"),
        (no_file, "permissions"),
        (closed, "open it again"),
    ],
)
def test_it_is_an_outage_no_refusal_and_clients_are_not_told_where_the_file_lies(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fail: Callable[[Path], None], hint: str
) -> None:
    path = tmp_path / "gallery.sqlite"
    with pytest.raises(GalleryUnavailable, match=hint) as caught:
        fail(path)
    assert str(tmp_path) not in caught.value.message
    assert fail is closed or str(path) in caplog.text


def test_damaged_file_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "gallery.sqlite").write_bytes(b"not a database at all" * 100)
    with pytest.raises(GalleryError, match="damaged"):
        Gallery.open(tmp_path, model_id=MODEL)


def test_files_are_for_their_owner_only(gallery: Gallery, faces: Faces) -> None:
    gallery.enroll("Ada", faces.photos(0))
    for path in gallery.folder.iterdir():
        assert path.stat().st_mode & 0o077 == 0, path
