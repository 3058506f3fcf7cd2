"""Give each request an id, turn errors into responses, and write the log and the metrics."""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.web import errors
from app.web.dependencies import AppState
from model.errors import FaceError

log = logging.getLogger("app.access")

COUNTED_METHODS = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{1,64}")


class RequestLogMiddleware:
    """ASGI middleware."""

    def __init__(self, app: ASGIApp, *, state: AppState) -> None:
        self.app = app
        self.metrics = state.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            # The app has no WebSocket routes, and the other middleware checks only HTTP.
            await send({"type": "websocket.close"})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        token = errors.request_id.set(name)
        started = time.perf_counter()
        status: int | None = None

        async def named_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = name
            await send(message)

        try:
            await self.app(scope, receive, named_send)
        except Exception as error:
            if not isinstance(error, FaceError):
                log.exception("unexpected error")
            if status is not None:
                raise
            await _answer(error)(scope, receive, named_send)
        finally:
            seconds = time.perf_counter() - started
            route = _route(scope)
            self.metrics.observe(_method(scope), route, status or 500, seconds)
            log.info("%s %s %d %.0f ms", _method(scope), route, status or 500, seconds * 1000)
            errors.request_id.reset(token)


def _answer(error: Exception) -> errors.Response:
    if isinstance(error, FaceError):
        return errors.answer(error)
    sorry = "Something went wrong here. The log says more under this request_id."
    return errors.plain_answer(500, "internal", sorry)


def _method(scope: Scope) -> str:
    """Return the method label for metrics. Unknown methods share one label, to bound the series."""
    return scope["method"] if scope["method"] in COUNTED_METHODS else "other"


def _route(scope: Scope) -> str:
    """Return the route's pattern, so that logs and metrics contain no ids or names."""
    route = scope.get("route")
    path = getattr(route, "path", None)
    if path:
        return path
    return "/v1/?" if scope["path"].startswith("/v1/") else "page"
