"""Receive the whole request body, with limits on size, time, speed and number of JSON values."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import errors
from app.web.callers import Caller
from app.web.dependencies import AppState
from app.web.middleware.access import SAFE_METHODS

SLOWEST_BYTES_PER_SECOND = 1000
"""Slower uploads are aborted."""

WINDOW_SECONDS = 5.0
"""Interval between checks of the upload speed."""

MAX_VALUES = 10_000
"""Most values in a JSON body. A valid request has a few hundred at most."""

MAX_LOGIN_BYTES = 16_384

_FORMS = ("multipart/form-data", "application/x-www-form-urlencoded")


class BodyMiddleware:
    """ASGI middleware; passes the body to the next app in one piece."""

    def __init__(self, app: ASGIApp, *, state: AppState) -> None:
        self.app = app
        self.state = state
        self.settings = state.settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        caller: Caller = scope["caller"]
        if scope["method"] not in SAFE_METHODS:
            arrivals = self.state.arrivals if caller.principal else self.state.login_arrivals
            async with arrivals.place(caller.counted_as):
                receive = await self._arrived(scope, receive)
        with ExitStack() as place:
            if scope["path"].startswith("/v1/"):
                place.enter_context(self.state.queue.admit())
            await self.app(scope, receive, send)

    async def _arrived(self, scope: Scope, receive: Receive) -> Receive:
        caller: Caller = scope["caller"]
        limit = self.settings.max_request_bytes if caller.principal else MAX_LOGIN_BYTES
        headers = Headers(scope=scope)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > limit:
            raise _too_large(limit)
        body = await read_body(receive, limit, self.settings.upload_seconds)
        if headers.get("content-type", "").split(";")[0].strip().lower() not in _FORMS:
            check_values(body)
        whole = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay


async def read_body(receive: Receive, limit: int, seconds: float) -> bytes:
    """Receive and return the whole body.

    Raises:
        SlowUpload: It did not arrive within ``seconds``, or nearly stalled.
        TooLarge: It is longer than ``limit`` bytes.
        Malformed: The client disconnected.
    """
    clock = asyncio.get_running_loop().time
    ends, pieces, size = clock() + seconds, [], 0
    window_ends, window_size, more = clock() + WINDOW_SECONDS, 0, True
    while more:
        try:
            async with asyncio.timeout_at(min(ends, window_ends)):
                message = await receive()
        except TimeoutError:
            message = {"type": "http.request", "body": b"", "more_body": True}
        if message["type"] == "http.disconnect":
            raise errors.Malformed("The connection ended before the request did.")
        piece, more = message.get("body", b""), message.get("more_body", False)
        pieces.append(piece)
        size += len(piece)
        window_size += len(piece)
        if size > limit:
            raise _too_large(limit)
        if more and clock() >= window_ends:
            if window_size < SLOWEST_BYTES_PER_SECOND * WINDOW_SECONDS:
                raise _too_slow(seconds)
            window_ends, window_size = clock() + WINDOW_SECONDS, 0
        if more and clock() >= ends:
            raise _too_slow(seconds)
    return b"".join(pieces)


def check_values(body: bytes) -> None:
    """Refuse JSON with too many values before it is parsed.

    Every value but the first follows a comma or a bracket, so these are counted. Those inside
    strings count too, but base64 images contain none.

    Raises:
        Malformed: There are more than :data:`MAX_VALUES`.
    """
    if body.count(b",") + body.count(b"[") + body.count(b"{") > MAX_VALUES:
        raise errors.Malformed(
            f"The JSON holds more than {MAX_VALUES} values. Send fewer photos at once.",
            max_values=MAX_VALUES,
        )


def _too_large(limit: int) -> errors.TooLarge:
    return errors.TooLarge(
        f"The request is larger than {limit / 1e6:g} MB. Send smaller or fewer photos.",
        max_bytes=limit,
    )


def _too_slow(seconds: float) -> errors.SlowUpload:
    return errors.SlowUpload(
        f"The request did not arrive within {seconds:g} s, or slower than "
        f"{SLOWEST_BYTES_PER_SECOND / 1000:g} kB a second. Send it again over a faster line, or "
        "send less."
    )
