"""Security headers on every response. No other site may read a response."""

from __future__ import annotations

from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

# The page needs inline scripts and styles; nothing may load from other origins.
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


class HeadersMiddleware:
    """Adds security headers and removes every ``Access-Control-*`` header: CORS is not allowed.

    Gradio's own CORS middleware would allow other origins.
    """

    def __init__(self, app: ASGIApp, *, state: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def finished(message: Message) -> None:
            if message["type"] == "http.response.start":
                _finish(MutableHeaders(scope=message), scope["path"])
            await send(message)

        await self.app(scope, receive, finished)


def _finish(headers: MutableHeaders, path: str) -> None:
    for name in {name for name in headers if name.startswith("access-control-")}:
        del headers[name]
    for name, value in SECURITY_HEADERS.items():
        headers.setdefault(name, value)
    if path.startswith("/v1/"):
        headers["Cache-Control"] = "no-store"
