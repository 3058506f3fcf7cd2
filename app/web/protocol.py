"""HTTP as uvicorn speaks it, with limits to how long a caller may take and how often he calls."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import sys
import termios
from collections import Counter
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from app.web.callers import address_group

CONNECTIONS_PER_ADDRESS = 200


class TimeoutProtocol(H11Protocol):
    """Hangs up on a connection that has not sent the head of a request for :attr:`seconds`, or has
    not read on in its answer, and on those of an address that has too many.

    uvicorn begins to count when a request is there, and waits for ever for its answer to be read.
    Anybody, without a key, could hold connections open until the server has no more of them.
    """

    seconds = 20.0
    per_address: int | None = CONNECTIONS_PER_ADDRESS
    """Most connections of one address; None behind a proxy, through which all of them come."""

    _open: ClassVar[Counter[str]] = Counter()

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._drained = False
        self._address = address_group(self.client[0] if self.client else "unknown")
        self._open[self._address] += 1
        self._watch(None, 0)
        if self.per_address is not None and self._open[self._address] > self.per_address:
            transport.abort()

    def resume_writing(self) -> None:
        self._drained = True
        super().resume_writing()

    def _watch(self, last: Any, unread: int) -> None:
        self._watching = self.loop.call_later(self.seconds, self._look, last, unread)

    def _look(self, last: Any, was_unread: int) -> None:
        """Go on watching if a request is at work, has been since the last look, or the answer to
        one moves."""
        unread = self._unread()
        moves, self._drained = self._drained or unread != was_unread, False
        idle = (self.cycle is None or self.cycle.response_complete) and self.cycle is last
        if unread and not moves:
            self.transport.abort()
        elif idle and not unread:
            self.transport.close()
        else:
            self._watch(self.cycle, unread)

    def _unread(self) -> int:
        """Bytes of answers the caller has not taken: those kept here, and those the system keeps,
        which a slow reader takes from first."""
        kept = self.transport.get_write_buffer_size()
        with contextlib.suppress(OSError):
            socket = self.transport.get_extra_info("socket")
            sent = fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4))
            kept += int.from_bytes(sent, sys.byteorder)
        return kept

    def connection_lost(self, exc: Exception | None) -> None:
        self._watching.cancel()
        self._open[self._address] -= 1
        if not self._open[self._address]:
            del self._open[self._address]
        super().connection_lost(exc)
