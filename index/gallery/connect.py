"""Connects to the gallery's database, chosen by its address."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from index.crypto.keys import SecretsElsewhere
from index.gallery.database import Database
from index.gallery.sqlite import SqliteDatabase
from model.errors import GalleryUnavailable

if TYPE_CHECKING:
    from index.postgresql.shared_state import SharedState

DATABASE_FILE = "gallery.sqlite"
SCHEMES = ("postgresql", "postgres")


def check_address(url: str) -> None:
    """Checks the address of a PostgreSQL database.

    Raises:
        ValueError: If the scheme is not PostgreSQL's or the database name is missing.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.strip("/"):
        raise ValueError("a gallery's address looks like postgresql://user@host/database")


def connect_database(folder: Path, url: str | None) -> Database:
    """Connects to the database at an address, or to the SQLite file in a folder."""
    if url is None:
        return SqliteDatabase(folder / DATABASE_FILE)
    check_address(url)
    with _needing_psycopg():
        from index.gallery.postgresql import PostgresDatabase
    return PostgresDatabase(url)


def connect_secrets(url: str | None, secrets_url: str | None) -> SecretsElsewhere | None:
    """Connects to the secret store at an address; None for the gallery's own table.

    Raises:
        ValueError: If the gallery is a SQLite file, which overwrites its secrets in place.
    """
    if secrets_url is None:
        return None
    if url is None:
        raise ValueError("a store of secrets is for a gallery in PostgreSQL")
    check_address(secrets_url)
    from index.postgresql.secret_store import SecretStore

    return SecretStore(secrets_url)


def connect_shared(url: str) -> SharedState:
    """Connects to the state that the servers of a gallery share, apart from its people."""
    with _needing_psycopg():
        from index.postgresql.shared_state import SharedState
    return SharedState(url)


@contextmanager
def _needing_psycopg() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise GalleryUnavailable(
            "A gallery in PostgreSQL needs more packages: pip install -r "
            "requirements-postgresql.txt."
        ) from error
