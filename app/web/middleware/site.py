"""Refuse requests with a foreign ``Host`` header and requests from other sites' pages."""

from __future__ import annotations

import ipaddress
import re
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from app.web.dependencies import AppState
from app.web.errors import Refused

LINKED = ("/", "/docs")
"""The only paths that a link on another site may open."""

_HOST = re.compile(r"(?P<name>[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?")
_FORWARDED = (b"x-forwarded-host", b"x-forwarded-proto", b"x-forwarded-prefix", b"forwarded")


class SiteMiddleware:
    """ASGI middleware.

    Args:
        state: Its settings hold the server's host names. While no key is required, only loopback
            names are accepted, which prevents DNS rebinding.
    """

    def __init__(self, app: ASGIApp, *, state: AppState) -> None:
        self.app = app
        self.settings = state.settings
        self.keys = state.service.keys
        self._public = {name.lower() for name in self.settings.public_names}
        self._names = {
            self.settings.host.strip("[]").lower(),
            "localhost",
            *(host_name(name) for name in self._public),
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            self._check_host(headers)
            self._check_site(scope, headers)
            scope["headers"] = self._believed(scope["headers"])
        await self.app(scope, receive, send)

    def _check_host(self, headers: Headers) -> None:
        host = headers.get("host", "")
        if len(headers.getlist("host")) > 1 or not self._known(host_name(host)):
            raise Refused(
                f"This server does not answer to the name {host[:100]!r}. Use the address it was "
                "started with, or add the name to 'public_names' in the settings."
            )

    def _known(self, name: str) -> bool:
        if name in self._names:
            return True
        if name and self.keys.required and not self._public:
            return True
        try:
            return ipaddress.ip_address(name).is_loopback
        except ValueError:
            return False

    def _check_site(self, scope: Scope, headers: Headers) -> None:
        """Refuse requests, of any method, that the browser marks as coming from another site."""
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        foreign = origin is not None and not self._own(origin, headers.get("host", ""))
        elsewhere = site in ("cross-site", "same-site")
        if foreign or (elsewhere and not _follows_link(scope, headers)):
            raise Refused("Other sites' pages may link to this server's page, and no more.")

    def _own(self, origin: str, host: str) -> bool:
        try:
            netloc = urlsplit(origin).netloc.lower()
        except ValueError:
            return False
        # Behind a proxy, Host may be an internal name while the browser sends the public one.
        return netloc != "" and (netloc == host.lower() or netloc in self._public)

    def _believed(self, headers: list[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
        """Remove forwarding headers that do not come from a configured proxy.

        Gradio builds the page's URLs from them.
        """

        def believed(name: bytes, value: bytes) -> bool:
            if name not in _FORWARDED:
                return True
            if not self.settings.behind_proxy or name == b"forwarded":
                return False
            return name != b"x-forwarded-host" or value.decode("latin-1").lower() in self._public

        return [(name, value) for name, value in headers if believed(name.lower(), value)]


def host_name(host: str) -> str:
    """Return the name in a ``Host`` header, in lower case; empty if it is malformed."""
    found = _HOST.fullmatch(host)
    return found["name"].strip("[]").lower() if found else ""


def _follows_link(scope: Scope, headers: Headers) -> bool:
    return (
        scope["method"] in ("GET", "HEAD")
        and scope["path"] in LINKED
        and headers.get("sec-fetch-mode") == "navigate"
        and headers.get("sec-fetch-dest") == "document"
    )
