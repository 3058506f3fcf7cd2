"""Storage of the keys, the active calibration and the audit log: in files or a shared database."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from app.audit import FileLines
from app.documents import Document, FileDocument, Lines
from app.settings import Settings
from index.gallery.connect import connect_shared

if TYPE_CHECKING:
    from index.postgresql.shared_state import SharedDocument, SharedState


@dataclass(frozen=True)
class Stores:
    """An installation's stored data other than the gallery.

    Attributes:
        calibration: The calibration that a user activated.
        audit: The audit log; None if it is off.
        shared: State shared by all servers of a PostgreSQL gallery; None with a SQLite gallery.
    """

    keys: Document
    calibration: Document
    audit: Lines | None
    shared: SharedState | None = None

    @classmethod
    def open(cls, settings: Settings) -> Stores:
        """Open the files in the data folder, or the PostgreSQL database of the gallery.

        If the database has never had keys or a calibration, this server's files are copied to it.
        """
        if not settings.gallery:
            return cls(
                FileDocument(settings.keys_file),
                FileDocument(settings.active_calibration),
                FileLines(settings.audit_file) if settings.audit else None,
            )
        shared = connect_shared(settings.gallery)
        keys, calibration = shared.document("keys"), shared.document("calibration")
        _bring(settings.keys_file, keys)
        _bring(settings.active_calibration, calibration)
        return cls(keys, calibration, shared if settings.audit else None, shared)

    def close(self) -> None:
        if self.shared is not None:
            self.shared.close()


def _bring(file: Path, document: SharedDocument) -> None:
    if file.exists():
        document.begin(file.read_bytes())
