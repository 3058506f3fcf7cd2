"""Listens for changes by other servers. The tables remain the source of truth."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import psycopg

log = logging.getLogger(__name__)

LISTEN_SECONDS = 0.5
"""Seconds between checks whether the database answers and whether the thread should stop."""
QUIET_SECONDS = 3.0
"""Longest time between two answers of the database that is not counted as deafness."""
RETRY_SECONDS = 1.0


class ChangeListener:
    """A thread that calls an action on every notification for this schema.

    Notifications sent while the connection is lost are not repeated. So the action is also called
    after every connect; it must read the tables and catch up.

    Args:
        channel: Notification channel; the payload is the schema's name.
    """

    def __init__(self, conninfo: str, channel: str, action: Callable[[], object]) -> None:
        self._conninfo = conninfo
        self._channel = channel
        self._action = action
        self._answered = time.monotonic()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"{channel}-listener", daemon=True)
        self._thread.start()

    @property
    def deaf_seconds(self) -> float:
        """Seconds since the database last answered; 0 up to `QUIET_SECONDS`."""
        quiet = time.monotonic() - self._answered
        return quiet if quiet > QUIET_SECONDS else 0.0

    def close(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self._listen()
            except Exception as error:
                # Whatever it is, a thread that ended would never hear of a revoked key.
                log.warning("announcements of changes are not heard: %s; trying again", error)
                self._stop.wait(RETRY_SECONDS)

    def _listen(self) -> None:
        with psycopg.connect(self._conninfo, autocommit=True) as connection:
            connection.execute(f"LISTEN {self._channel}")
            schema = connection.execute("SELECT current_schema()").fetchall()[0][0]
            self._action()
            while not self._stop.is_set():
                self._answered = time.monotonic()
                heard = list(connection.notifies(timeout=LISTEN_SECONDS, stop_after=1))
                if any(each.payload == schema for each in heard):
                    self._action()
                else:
                    # A connection can be dead without a sign: ask.
                    connection.execute("SELECT")
