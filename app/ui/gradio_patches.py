"""All that relies on Gradio's insides: its routes, its sessions, its logins, its downloads.

Gradio would fetch and keep what people give it, and answer more requests than the page sends;
this program does not.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, NoReturn

import gradio as gr
from fastapi.responses import Response
from gradio import processing_utils
from gradio.state_holder import SessionState
from starlette.requests import HTTPConnection
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth import KeyStore
from app.web.errors import plain_answer


async def refuse(url: str, cache_dir: str) -> NoReturn:
    """Stands where Gradio would download."""
    raise gr.Error("Addresses are not read. Choose the file itself.")


def stay_offline() -> None:
    """From now on no component fetches a file, whoever asks for it."""
    # Every way to a download in Gradio, at once or later, ends in this one function.
    processing_utils.async_ssrf_protected_download = refuse


def _let_go(state: SessionState, key: int, value: Any) -> None:
    """Stands where Gradio would keep the value of a component."""


def keep_nothing() -> None:
    """From now on no session keeps what its events take in and give back, photos among it."""
    # Gradio keeps these values for its links to a page as it stands, which are closed here.
    SessionState._update_value_in_config = _let_go


CLOSED = ("/gradio_api/file={path:path}", "/gradio_api/file/{path:path}", "/file={path:path}",
          "/file/{path:path}", "/gradio_api/proxy={path:path}", "/proxy={path:path}",
          "/gradio_api/deep_link", "/gradio_api/custom_component/{path:path}")  # fmt: skip
"""Gradio's routes that serve files or other sites, write what a page shows into a file or what a
caller says into the log; the page needs none of them."""

GRADIO = "/gradio_api"
SENT_TO = ("/login", f"{GRADIO}/queue/join", f"{GRADIO}/cancel", f"{GRADIO}/reset")
"""Where the page sends anything but files; beside these, events that do not queue are run by name.
Gradio has more such routes, one of which hands what it is sent to ffmpeg."""


class PageMount(Mount):
    """The page takes every path that nothing else takes, except the API's: they have errors of
    their own for an unknown path or a wrong method. Whoever loads it with a revoked key is asked
    to log in. Nothing is taken in but what the page itself sends, and files from admins only:
    nobody else has a use for them."""

    def __init__(self, path: str, app: ASGIApp, keys: KeyStore) -> None:
        super().__init__(path, app)
        self.keys = keys

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if f"{scope['path']}/".startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"].rstrip("/") == self.path:
            self.app.tokens.drop_revoked(self.keys)
        place = scope["path"].removeprefix(self.path).rstrip("/")
        if place.startswith(f"{GRADIO}/heartbeat"):
            # A connection that stays open, which Gradio grants without a login.
            self.keys.user(self._user(scope))
        if scope["type"] == "http" and scope["method"] not in ("GET", "HEAD"):
            if place == f"{GRADIO}/upload":
                self.keys.user(self._user(scope)).require("admin")
            elif place not in SENT_TO and not place.startswith(f"{GRADIO}/run/"):
                await closed()(scope, receive, send)
                return
        await super().handle(scope, receive, send)

    def _user(self, scope: Scope) -> str | None:
        """Who is logged in, from the cookies in which Gradio keeps it."""
        cookies, name = HTTPConnection(scope).cookies, self.app.cookie_id
        token = cookies.get(f"access-token-{name}") or cookies.get(f"access-token-unsecure-{name}")
        return self.app.tokens.get(token)


def closed() -> Response:
    return plain_answer(404, "not_found", "The page has nothing here.")


let_in: ContextVar[str] = ContextVar("let_in")
"""The user of the key that opened the login at work."""


class LoggedInUsers(dict[str, str]):
    """Takes the place of Gradio's users by token.

    Gradio keeps the name that was typed, without end. A name can be given again to another key,
    so this keeps the key's own user, as :meth:`app.auth.KeyStore.login` gives it.
    """

    def __setitem__(self, token: str, name: str) -> None:
        super().__setitem__(token, let_in.get())

    def drop_revoked(self, keys: KeyStore) -> None:
        """Forget whoever came in with a key that is no more: the page asks them to log in."""
        stored = keys.keys()
        users = {key.user for key in stored}
        # A logout may delete in another thread.
        for token, user in list(self.items()):
            if user not in users:
                self.pop(token, None)
