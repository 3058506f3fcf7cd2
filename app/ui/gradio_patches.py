"""All code that depends on Gradio's internals: routes, sessions, logins and downloads.

By default, Gradio downloads URLs, keeps user input and exposes routes that the page does not need.
These patches turn that off.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from urllib.parse import parse_qs

import gradio as gr
from fastapi.responses import Response
from gradio import processing_utils
from gradio.state_holder import SessionState
from starlette.requests import Request
from starlette.routing import Match, Mount
from starlette.types import Message, Receive, Scope, Send

from app.auth import NotAllowed, NotAuthenticated
from app.ui import login
from app.web.callers import Caller
from app.web.dependencies import AppState
from app.web.errors import plain_answer
from app.web.limits import TooManyRequests


async def refuse(url: str, cache_dir: str) -> NoReturn:
    """Replaces Gradio's download function."""
    raise gr.Error("Addresses are not read. Choose the file itself.")


def stay_offline() -> None:
    """Stop all components from downloading files."""
    # Every download in Gradio goes through this function.
    processing_utils.async_ssrf_protected_download = refuse


def _let_go(state: SessionState, key: int, value: Any) -> None:
    """Replaces the method with which Gradio stores a component's value."""


def keep_nothing() -> None:
    """Stop sessions from storing the inputs and outputs of events, which include photos."""
    # Gradio stores them for links that share a page's current state; those are disabled here.
    SessionState._update_value_in_config = _let_go


def never(name: str, secret: str) -> bool:
    """Replaces Gradio's login check; :mod:`app.ui.login` checks logins instead."""
    return False


GRADIO = "/gradio_api"
LOADED = ("assets", "static", "svelte", "theme.css", "favicon.ico", "manifest.json", "robots.txt")
"""The page's static files, by first path segment; served without a login."""

ASKED = ("/config", f"{GRADIO}/info", f"{GRADIO}/queue/data",
         f"{GRADIO}/startup-events", f"{GRADIO}/upload_progress")  # fmt: skip
HEARTBEAT = f"{GRADIO}/heartbeat/"
SENT_TO = (f"{GRADIO}/queue/join", f"{GRADIO}/cancel", f"{GRADIO}/reset", f"{GRADIO}/upload")
RUN = f"{GRADIO}/run/"
"""The only Gradio routes that the page uses. All others are closed, such as the ones that return
the login token, serve files, or pass uploads to ffmpeg."""

STREAMS_PER_CALLER = 24
"""Most long-lived connections per login or address; each open page has two."""

MAX_SESSIONS = 10_000
"""Most sessions whose owner is remembered; the least recently used are dropped first."""


class PageMount(Mount):
    """Mounts the page on every path that no other route takes, except below /v1.

    The API has its own errors for unknown paths and methods. Only routes that the page uses are
    served, and only admins may upload files. A session belongs to its first user, because its id
    is part of URLs, which others may see.
    """

    def __init__(self, path: str, app: Any, state: AppState) -> None:
        super().__init__(path, app)
        self.gradio = app
        self.keys = state.service.keys
        app.tokens = state.logins
        app.cookie_id = state.logins.id
        self._owners: OrderedDict[str, str] = OrderedDict()
        self._streams: Counter[str] = Counter()

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if f"{scope['path']}/".startswith("/v1/"):
            return Match.NONE, {}
        return super().matches(scope)

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Since the last request, the first key may have been created.
        self.gradio.auth = never if self.keys.required else None
        caller: Caller = scope["caller"]
        place = scope["path"].removeprefix(self.path).rstrip("/")
        if not _is_used(scope["method"], place):
            await closed()(scope, receive, send)
            return
        if not place and caller.principal is None:
            await login.form()(scope, receive, send)
            return
        if place and place.split("/")[1] not in LOADED:
            if caller.principal is None:
                raise NotAuthenticated("Log in first: load the page, and give a name and a key.")
            if place == f"{GRADIO}/upload":
                caller.principal.require("admin")
            else:
                receive = await self._in_own_session(caller, scope, receive, place)
        with self._stream(caller, place):
            await super().handle(scope, receive, send)

    async def _in_own_session(
        self, caller: Caller, scope: Scope, receive: Receive, place: str
    ) -> Receive:
        asked = parse_qs(scope["query_string"].decode("latin-1"), max_num_fields=100)
        for session in asked.get("session_hash", []):
            self._claim(caller, session)
        if place.startswith(HEARTBEAT):
            self._claim(caller, place.removeprefix(HEARTBEAT))
        if scope["method"] not in ("GET", "HEAD"):
            body = await Request(scope, receive).body()
            self._claim(caller, await asyncio.to_thread(_session_of, body))
            return _replayed(body, receive)
        return receive

    def _claim(self, caller: Caller, session: str) -> None:
        """Assign a session to the caller if it has no owner yet.

        Raises:
            NotAllowed: The session belongs to another login.
        """
        if caller.user is None or not session:
            return
        owner = self._owners.setdefault(session, caller.user)
        self._owners.move_to_end(session)
        while len(self._owners) > MAX_SESSIONS:
            self._owners.popitem(last=False)
        if owner != caller.user:
            raise NotAllowed("This session was opened by another login. Load the page again.")

    @contextmanager
    def _stream(self, caller: Caller, place: str) -> Iterator[None]:
        """Count a long-lived connection while it is open.

        Raises:
            TooManyRequests: The caller has too many of them.
        """
        if not place.startswith(HEARTBEAT) and place != f"{GRADIO}/queue/data":
            yield
            return
        name = caller.counted_as
        if self._streams[name] >= STREAMS_PER_CALLER:
            raise TooManyRequests(
                f"More than {STREAMS_PER_CALLER // 2} pages are open. Close some.", retry_after=10
            )
        self._streams[name] += 1
        try:
            yield
        finally:
            self._streams[name] -= 1
            if not self._streams[name]:
                del self._streams[name]


def closed() -> Response:
    return plain_answer(404, "not_found", "The page has nothing here.")


def _is_used(method: str, place: str) -> bool:
    if method in ("GET", "HEAD"):
        return (
            not place
            or place in ASKED
            or place.startswith(HEARTBEAT)
            or (place.split("/")[1] in LOADED)
        )
    return place in SENT_TO or place.startswith(RUN)


def _session_of(body: bytes) -> str:
    try:
        session = json.loads(body).get("session_hash")
    except (AttributeError, RecursionError, ValueError):
        return ""
    return session if isinstance(session, str) else ""


def _replayed(body: bytes, receive: Receive) -> Receive:
    whole: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def replay() -> Message:
        return whole.pop() if whole else await receive()

    return replay
