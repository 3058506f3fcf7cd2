"""Choosing the gallery's database by its address."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from index.gallery.database import Database
from index.gallery.sqlite import SqliteDatabase
from model.errors import GalleryUnavailable

DATABASE_FILE = "gallery.sqlite"
SCHEMES = ("postgresql", "postgres")


def check_address(url: str) -> None:
    """Refuses what is no address of a database.

    Raises:
        ValueError: If the scheme is not PostgreSQL's or no database is named.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.strip("/"):
        raise ValueError("a gallery's address looks like postgresql://user@host/database")


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
