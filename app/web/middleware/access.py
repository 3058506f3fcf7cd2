"""Authenticate the caller and apply rate limits before the body is read."""

from __future__ import annotations

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth import LOCAL, NotAuthenticated, secret_of
from app.web.callers import Caller, address_group
from app.web.dependencies import AppState

SAFE_METHODS = ("GET", "HEAD", "OPTIONS")


class AccessMiddleware:
    """ASGI middleware; stores the :class:`~app.web.callers.Caller` in ``scope["caller"]``.

    The API needs a key in the request, the page a login. Without a login, a caller can only load
    the page's static files and send the login form.
    """

    def __init__(self, app: ASGIApp, *, state: AppState) -> None:
        self.app = app
        self.state = state
        self.keys = state.service.keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            caller = self._caller(scope)
            await self._check(caller, scope)
            scope["caller"] = caller
        await self.app(scope, receive, send)

    def _caller(self, scope: Scope) -> Caller:
        client = scope.get("client")
        address = address_group(client[0] if client else "unknown")
        headers, path = Headers(scope=scope), scope["path"]
        if path == "/health":
            # The process is alive even if its keys cannot be read.
            return Caller(address, None)
        if not self.keys.required:
            return Caller(address, LOCAL)
        if path.startswith("/v1/") or path == "/metrics":
            return self._with_key(address, headers)
        user = self.state.logins.user(headers)
        try:
            return Caller(address, self.keys.user(user), user)
        except NotAuthenticated:
            return Caller(address, None)

    def _with_key(self, address: str, headers: Headers) -> Caller:
        secret = secret_of(headers)
        try:
            principal = self.keys.principal(secret)
        except NotAuthenticated:
            # Wrong keys have their own limit, so they never lock out a valid key.
            self.state.failures.check(address)
            raise
        return Caller(address, principal, f"key {principal.name}")

    async def _check(self, caller: Caller, scope: Scope) -> None:
        changes = scope["method"] not in SAFE_METHODS
        login = scope["path"].rstrip("/") == "/login"
        if caller.principal is None and changes and not login:
            raise NotAuthenticated("Log in first: load the page, and give a key's name and key.")
        # The login route counts failed logins itself; successful ones are not limited.
        if (changes and not login) or scope["path"].startswith("/v1/"):
            await self.state.rate.check_everywhere(caller.counted_as)
