"""The middleware every request passes, page and API alike, before anything reads its body.

It names the request, refuses those from other sites or beyond the limits, takes the body in within
bounds of size and time, adds security headers, and writes the access log and the metrics.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
import re
import secrets
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.auth import KeyStore, secret_of
from app.settings import Settings
from app.web import errors
from app.web.limits import ArrivalLimiter, RateLimiter, WorkQueue, address_group
from app.web.metrics import Metrics
from model.errors import FaceError

log = logging.getLogger("app.access")

LOGINS_PER_MINUTE = 10
ARRIVING_PER_ADDRESS = 8
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
COUNTED_METHODS = (*SAFE_METHODS, "POST", "PUT", "PATCH", "DELETE")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")

# The page needs inline scripts and styles; nothing at all may come from elsewhere.
_POLICY = (
    "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval' blob:; "
    "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; media-src 'self' data: blob:; "
    "font-src 'self' data:; connect-src 'self' data: blob:; worker-src 'self' blob:; "
    "object-src 'none'; base-uri 'self'; form-action 'self'; frame-ancestors 'none'"
)
SECURITY_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(self), microphone=(), geolocation=()",
}


class RequestMiddleware:
    """ASGI middleware around the whole app.

    Args:
        app: What lies behind.
        settings: Limits and names.
        queue: Where API requests find a place.
        metrics: Told about each answer.
        keys: While none is required only the names of this machine are answered to, because a
            page elsewhere could point a name of its own at it.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        settings: Settings,
        queue: WorkQueue,
        metrics: Metrics,
        keys: KeyStore,
    ) -> None:
        self.app = app
        self.settings = settings
        self.queue = queue
        self.metrics = metrics
        self.keys = keys
        self.arrivals = ArrivalLimiter(
            settings.workers + settings.queue, ARRIVING_PER_ADDRESS, settings.queue_seconds
        )
        self.rate = RateLimiter(settings.rate_per_minute)
        self.logins = RateLimiter(LOGINS_PER_MINUTE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        token = errors.request_id.set(name)
        started = time.perf_counter()
        status = 500
        started_answer = False

        async def named_send(message: Message) -> None:
            nonlocal status, started_answer
            if message["type"] == "http.response.start":
                status, started_answer = message["status"], True
                self._finish_headers(scope, MutableHeaders(scope=message), name)
            await send(message)

        try:
            with ExitStack() as place:
                try:
                    self._check(scope, headers)
                    if scope["method"] not in SAFE_METHODS:
                        async with self.arrivals.place(_caller(scope)):
                            receive = await self._arrived(receive)
                    if scope["path"].startswith("/v1/"):
                        place.enter_context(self.queue.admit())
                except FaceError as error:
                    await errors.answer(error)(scope, receive, named_send)
                else:
                    await self.app(scope, receive, named_send)
        except Exception:
            log.exception("unexpected error")
            if started_answer:
                raise
            sorry = "Something went wrong here. The log says more under this request_id."
            answer = errors.plain_answer(500, "internal", sorry)
            await answer(scope, receive, named_send)
        finally:
            seconds = time.perf_counter() - started
            route = _route(scope)
            self.metrics.observe(_method(scope), route, status, seconds)
            log.info("%s %s %d %.0f ms", scope["method"], route, status, seconds * 1000)
            errors.request_id.reset(token)

    def _check(self, scope: Scope, headers: Headers) -> None:
        self._check_site(scope["method"], headers)
        if scope["path"] not in ("/health", "/ready"):
            caller = _caller(scope)
            changes = scope["method"] not in SAFE_METHODS
            if changes or scope["path"].startswith(("/v1/", "/login")):
                self.rate.check(caller)
            if scope["path"].rstrip("/") == "/login" and scope["method"] == "POST":
                self.logins.check(caller)
        if scope["path"].startswith("/v1/") and self.keys.required:
            secret_of(headers)
        length = headers.get("content-length", "")
        if length.isdecimal() and int(length) > self.settings.max_request_bytes:
            raise self._too_large()

    def _check_site(self, method: str, headers: Headers) -> None:
        host = headers.get("host", "")
        if not self._known_host(host):
            raise errors.Refused(
                f"This server does not answer to the name {host!r}. Use the address it was "
                "started with, or add the name to 'public_names' in the settings."
            )
        if method in SAFE_METHODS:
            return
        site = headers.get("sec-fetch-site")
        if self._foreign(headers.get("origin"), host) or site in ("cross-site", "same-site"):
            raise errors.Refused(
                "Requests that change something must come from this server's page."
            )

    def _foreign(self, origin: str | None, host: str) -> bool:
        """Whether a browser says that another site's page sent the request."""
        if origin is None:
            return False
        try:
            site = urlsplit(origin)
            # A proxy may ask under a name of its own; the browser knows the public one.
            own = site.netloc.lower() == host.lower() or site.hostname in self._public_names
        except ValueError:
            return True
        return not own

    @property
    def _public_names(self) -> set[str]:
        return {*map(str.lower, self.settings.public_names)}

    def _known_host(self, host: str) -> bool:
        try:
            name = (urlsplit(f"//{host}").hostname or "").lower()
        except ValueError:
            return False
        names = {self.settings.host.strip("[]").lower(), *self._public_names}
        if name in names or name == "localhost":
            return True
        if self.keys.required and not self.settings.public_names:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _too_large(self) -> errors.TooLarge:
        return errors.TooLarge(
            f"The request is larger than {self.settings.max_request_bytes / 1e6:.0f} MB. "
            "Send smaller or fewer photos.",
            max_bytes=self.settings.max_request_bytes,
        )

    async def _arrived(self, receive: Receive) -> Receive:
        """Take the body in, then hand it on as one piece.

        Raises:
            SlowUpload: It did not arrive in time.
            TooLarge: It grows too long.
            Malformed: The sender hung up.
        """
        pieces: list[bytes] = []
        size, more = 0, True
        try:
            async with asyncio.timeout(self.settings.upload_seconds):
                while more:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise errors.Malformed("The connection ended before the request did.")
                    pieces.append(message.get("body", b""))
                    more = message.get("more_body", False)
                    size += len(pieces[-1])
                    if size > self.settings.max_request_bytes:
                        raise self._too_large()
        except TimeoutError:
            raise errors.SlowUpload(
                f"The request did not arrive within {self.settings.upload_seconds:g} s. Send it "
                "again over a faster line, or send less."
            ) from None
        whole = [{"type": "http.request", "body": b"".join(pieces), "more_body": False}]

        async def replay() -> Message:
            return whole.pop() if whole else await receive()

        return replay

    def _finish_headers(self, scope: Scope, headers: MutableHeaders, name: str) -> None:
        for header, value in SECURITY_HEADERS.items():
            headers.setdefault(header, value)
        headers["X-Request-ID"] = name
        if scope["path"].startswith("/v1/"):
            headers["Cache-Control"] = "no-store"


def _caller(scope: Scope) -> str:
    """The address limits are counted for."""
    client = scope.get("client")
    return address_group(client[0] if client else "unknown")


def _method(scope: Scope) -> str:
    """The method as figures name it; each word a caller makes up would be a series of its own."""
    return scope["method"] if scope["method"] in COUNTED_METHODS else "other"


def _route(scope: Scope) -> str:
    """The route's pattern, so that neither logs nor figures hold ids or names."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    if path:
        return path
    return "/v1/?" if scope["path"].startswith("/v1/") else "page"
