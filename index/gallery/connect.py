"""Choosing the gallery's database by its address."""

from __future__ import annotations

from pathlib import Path

from index.gallery.address import check_address
from index.gallery.database import Database
from index.gallery.sqlite import SqliteDatabase
from model.errors import GalleryUnavailable

DATABASE_FILE = "gallery.sqlite"


def connect_database(folder: Path, url: str | None) -> Database:
    """The database at an address, or the SQLite file in a folder.

    Raises:
        ValueError: If the address is not one of a database.
        GalleryUnavailable: If the database cannot be used.
    """
    if url is None:
        return SqliteDatabase(folder / DATABASE_FILE)
    check_address(url)
    try:
        from index.gallery.postgresql import PostgresDatabase
    except ImportError as error:
        raise GalleryUnavailable(
            "A gallery in PostgreSQL needs more packages: pip install -r "
            "requirements-postgresql.txt."
        ) from error
    return PostgresDatabase(url)
