"""The state that servers of one gallery share: documents, the audit log and rate limits."""

from __future__ import annotations

import hashlib
import logging
import threading
from collections.abc import Callable, Iterator

from index.gallery.schema.postgresql import SHARED, migrate
from index.postgresql.listener import ChangeListener
from index.postgresql.pool import Pool
from model.errors import GalleryUnavailable

log = logging.getLogger(__name__)

CONNECTIONS = 4
DEAF_SECONDS = 10.0
"""Seconds for which documents count as current after the database connection is lost."""
LINES_AT_ONCE = 1000


class SharedState:
    """Documents, the audit log and rate limits in the gallery's database.

    Attributes:
        key: The document with the key that signs lines of the audit log.

    Args:
        url: As for :class:`~index.postgresql.pool.Pool`.

    Raises:
        GalleryUnavailable: If the database cannot be used; applies to all methods except
            :meth:`take`.
    """

    def __init__(self, url: str) -> None:
        self._pool = Pool(url, "the gallery's database", CONNECTIONS, migrate)
        self._known: dict[str, tuple[int, bytes | None]] = {}
        self.key = self.document("audit key")
        self._loading = threading.Lock()
        try:
            self._load()
        except BaseException:
            self._pool.close()
            raise
        self._listener = ChangeListener(self._pool.conninfo, SHARED, self._load)

    def close(self) -> None:
        self._listener.close()
        self._pool.close()

    def document(self, name: str) -> SharedDocument:
        return SharedDocument(self, name)

    def known(self, name: str) -> tuple[int, bytes | None]:
        """Returns the cached version and content of a document; 0 and None if it is missing."""
        if self._listener.deaf_seconds > DEAF_SECONDS:
            raise GalleryUnavailable(
                "The gallery's database, which holds the keys, cannot be reached: start it or "
                "check the address, and try again."
            )
        return self._known.get(name, (0, None))

    def change(self, name: str, edit: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces a document's content by ``edit(content)``, one server at a time."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("LOCK TABLE documents IN EXCLUSIVE MODE")
            row = connection.execute(
                "SELECT content FROM documents WHERE name = %s", (name,)
            ).fetchone()
            stored = row[0] if row else None
            content = edit(stored)
            if content != stored:
                connection.execute(
                    "INSERT INTO documents VALUES (%s, 1, %s) ON CONFLICT (name) DO UPDATE "
                    "SET version = documents.version + 1, content = excluded.content",
                    (name, content),
                )
        self._load()

    def begin(self, name: str, content: bytes) -> None:
        """Stores a document that no server has had yet; one that was removed stays removed."""
        with self._pool.connection() as connection:
            connection.execute(
                "INSERT INTO documents VALUES (%s, 1, %s) ON CONFLICT DO NOTHING", (name, content)
            )
        self._load()

    def append(self, make: Callable[[bytes], bytes]) -> None:
        """Appends a line to the audit log; ``make`` gets the previous line, or ``b""``."""
        with self._pool.connection() as connection, connection.transaction():
            connection.execute("LOCK TABLE audit IN EXCLUSIVE MODE")
            last = connection.execute(
                "SELECT seq, line FROM audit ORDER BY seq DESC LIMIT 1"
            ).fetchone()
            seq, line = last or (0, b"")
            connection.execute("INSERT INTO audit VALUES (%s, %s)", (seq + 1, make(line)))

    def __iter__(self) -> Iterator[bytes]:
        seq = 0
        while True:
            with self._pool.connection() as connection:
                found = connection.execute(
                    "SELECT seq, line FROM audit WHERE seq > %s ORDER BY seq LIMIT %s",
                    (seq, LINES_AT_ONCE),
                ).fetchall()
            if not found:
                return
            yield from (line for _, line in found)
            seq = found[-1][0]

    def take(self, caller: str, per_minute: int) -> float:
        """Counts one request of a caller across all servers.

        Args:
            caller: Identity of the caller; stored as a hash.
            per_minute: Average requests per minute, and largest burst.

        Returns:
            Seconds to wait; 0 if the request is allowed, or if the database does not answer.
        """
        if self._listener.deaf_seconds:
            return 0.0
        digest = hashlib.sha256(caller.encode()).digest()
        try:
            with self._pool.connection() as connection, connection.transaction():
                connection.execute("SET LOCAL synchronous_commit = off")
                ((wait,),) = connection.execute(
                    "SELECT take_token(%s, %s)", (digest, float(per_minute))
                ).fetchall()
        except GalleryUnavailable as error:
            log.warning("a request was not counted: %s", error)
            return 0.0
        return wait

    def _load(self) -> None:
        # One thread at a time, so that an older read never replaces a newer one.
        with self._loading, self._pool.connection() as connection:
            found = connection.execute("SELECT name, version, content FROM documents").fetchall()
            self._known = {name: (version, content) for name, version, content in found}


class SharedDocument:
    """A document that all servers can read and change."""

    def __init__(self, state: SharedState, name: str) -> None:
        self._state = state
        self.name = name

    def stamp(self) -> int | None:
        """Version of the document, different after each change; None if it has no content."""
        version, content = self._state.known(self.name)
        return None if content is None else version

    def read(self) -> bytes:
        return self._state.known(self.name)[1] or b""

    def change(self, edit: Callable[[bytes | None], bytes | None]) -> None:
        """Replaces the content by ``edit(content)``; None removes it."""
        self._state.change(self.name, edit)

    def begin(self, content: bytes) -> None:
        """Sets the content of a document that has never had any."""
        self._state.begin(self.name, content)
