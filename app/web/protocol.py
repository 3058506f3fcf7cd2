"""uvicorn's HTTP protocol with timeouts and a limit on connections per address."""

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
    """Closes slow connections, and those of an address that has too many.

    A connection is slow if for :attr:`seconds` it sends no complete request head, or reads
    nothing of its response. uvicorn has no timeout for either, so anyone without a key could hold
    connections open until the server runs out of them.
    """

    seconds = 20.0
    per_address: int | None = CONNECTIONS_PER_ADDRESS
    """Most connections per address; None behind a proxy, where all share the proxy's address."""

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
        """Close the connection if it is idle or its response is stuck, else keep watching."""
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
        """Return the response bytes the client has not received yet.

        Counts the transport's buffer and the kernel's, which a slow reader drains first.
        """
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
