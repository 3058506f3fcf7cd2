"""Who is asking: an address, and perhaps a key or a login of the page."""

from __future__ import annotations

import ipaddress
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from starlette.requests import cookie_parser

from app.auth import KeyStore, Principal

MAX_LOGINS = 10_000
"""Most logins of the page remembered; the oldest are forgotten first."""


@dataclass(frozen=True)
class Caller:
    """Who sent a request.

    Attributes:
        address: Where from, as :func:`address_group` has it.
        principal: On whose behalf; None for someone who showed neither key nor login.
        user: The login or key; None where no key is required, or none was shown.
    """

    address: str
    principal: Principal | None
    user: str | None = None

    @property
    def counted_as(self) -> str:
        """What limits are counted for. People behind one address do not share those of keys."""
        if self.principal is None or self.user is None:
            return f"address {self.address}"
        return f"principal {self.principal.name}"


class Logins(dict[str, str]):
    """Users of the page by the token in their cookie; takes the place of Gradio's own.

    A name can be given again to another key, so what is kept is the key's own user, as
    :meth:`app.auth.KeyStore.login` gives it.
    """

    def __init__(self) -> None:
        super().__init__()
        # Two servers on one machine share a browser's cookies.
        self.id = secrets.token_urlsafe(16)
        self.cookie = f"access-token-{self.id}"

    def open(self, user: str) -> str:
        """A new token for a user."""
        token = secrets.token_urlsafe(32)
        self[token] = user
        while len(self) > MAX_LOGINS:
            self.pop(next(iter(self)), None)
        return token

    def user(self, headers: Mapping[str, str]) -> str | None:
        """The user of a request's cookie."""
        return self.get(cookie_parser(headers.get("cookie", "")).get(self.cookie, ""))

    def drop_revoked(self, keys: KeyStore) -> None:
        """Forget whoever came in with a key that is no more: the page asks them to log in."""
        stored = keys.keys()
        users = {key.user for key in stored}
        # A logout may delete in another thread.
        for token, user in list(self.items()):
            if user not in users:
                self.pop(token, None)


def address_group(address: str) -> str:
    """The address a limit is counted for: an IPv6 network of 64 bits counts as one caller.

    A server that listens on ``::`` sees IPv4 callers as ``::ffff:a.b.c.d``; each counts alone.
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
