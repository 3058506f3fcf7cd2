"""Hearing at once that another server changed the gallery. The change log stays the truth."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

import psycopg

from index.gallery.schema.postgresql import CHANNEL

log = logging.getLogger(__name__)

LISTEN_SECONDS = 0.5
"""How long the thread listens before it looks whether it should end."""
RETRY_SECONDS = 1.0


class ChangeListener:
    """A thread that calls an action whenever photos of a gallery changed.

    Notifications sent while the connection was lost are not repeated, so the action is called
    after every connect as well; it reads the log and does what is missing.

    Args:
        conninfo: The database.
        action: Called without arguments; must not raise.
    """

    def __init__(self, conninfo: str, action: Callable[[], object]) -> None:
        self._conninfo = conninfo
        self._action = action
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="gallery-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except psycopg.Error as error:
                log.warning("the gallery's announcements are not heard: %s; trying again", error)
                self._stop.wait(RETRY_SECONDS)

    def _listen(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(f"LISTEN {CHANNEL}")
            (schema,) = connection.execute("SELECT current_schema()").fetchone()
            self._action()
            while not self._stop.is_set():
                heard = list(connection.notifies(timeout=LISTEN_SECONDS, stop_after=1))
                if any(each.payload == schema for each in heard):
                    self._action()
