"""The address of a gallery's database."""

from __future__ import annotations

from urllib.parse import urlsplit

SCHEMES = ("postgresql", "postgres")


def check_address(url: str) -> None:
    """Refuses what is no address of a database.

    Raises:
        ValueError: If the scheme is not PostgreSQL's or no database is named.
    """
    parts = urlsplit(url)
    if parts.scheme not in SCHEMES or not parts.path.strip("/"):
        raise ValueError("a gallery's address looks like postgresql://user@host/database")
