"""The caller of a request: an address, and optionally an API key or a page login."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import cookie_parser

from app.auth import Principal

MAX_LOGINS = 10_000
"""Most page logins remembered; the oldest are dropped first."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request.

    Attributes:
        address: The client's address, from :func:`address_group`.
        principal: The authenticated principal; None without a key or login.
        user: The login or key; None if no key is required or none was sent.
    """

    address: str
    principal: Principal | None
    user: str | None = None

    @property
    def counted_as(self) -> str:
        """The key for rate limits: the principal if there is one, else the address.

        Callers with keys behind one address therefore do not share a limit.
        """
        if self.principal is None or self.user is None:
            return f"address {self.address}"
        return f"principal {self.principal.name}"


class Logins(dict[str, str]):
    """Users of the page, by the token in their cookie; replaces Gradio's own dictionary.

    A new key may reuse a revoked key's name. The value is therefore the user that
    :meth:`app.auth.KeyStore.login` returns, which identifies the key.
    """

    def __init__(self) -> None:
        super().__init__()
        # Browsers share cookies between two servers on one machine, so each needs its own name.
        self.id = secrets.token_urlsafe(16)
        self.cookie = f"access-token-{self.id}"

    def open(self, user: str) -> str:
        token = secrets.token_urlsafe(32)
        self[token] = user
        while len(self) > MAX_LOGINS:
            self.pop(next(iter(self)), None)
        return token

    def user(self, headers: Mapping[str, str]) -> str | None:
        return self.get(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""))


def address_group(address: str) -> str:
    """Return the address to apply limits to: an IPv6 /64 network counts as one caller.

    A server on ``::`` sees IPv4 callers as ``::ffff:a.b.c.d``; each IPv4 address counts alone.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    if parsed.version == 6:
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return address
