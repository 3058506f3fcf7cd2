"""The tables of each database, and their migrations."""

from __future__ import annotations

from model.errors import GalleryError


def require_known(found: int, known: int) -> None:
    """Refuse a gallery whose schema version is newer than the newest known one."""
    if found > known:
        raise GalleryError(
            f"The gallery has schema version {found}, this program knows up to {known}. Use the "
            "newer program that wrote it.",
            found=found,
            known=known,
        )
