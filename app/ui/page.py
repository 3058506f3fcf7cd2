"""The page as a whole: its tabs, and how it is put into the web app."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import gradio as gr
from fastapi import FastAPI
from fastapi.responses import Response
from starlette.requests import HTTPConnection
from starlette.routing import Match, Mount
from starlette.types import ASGIApp, Receive, Scope, Send

from app.auth import KeyStore
from app.errors import plain_answer
from app.service import FaceService
from app.settings import Settings
from app.ui import enroll, gallery, login, model, private, search, theme, verify
from app.ui.downloads import Downloads
from app.ui.offline import keep_nothing, stay_offline

_HEADER = """
<header class="fv-head"><h1>Face verification</h1>
<p>Every answer carries a measured error rate. Photos are looked at in memory and not stored;
enrolling keeps {kept}.</p></header>
"""

_LOGIN = (
    f"<style>{Path(__file__).with_name('login.css').read_text(encoding='utf-8')}</style>"
    "<strong role='heading' aria-level='1'>Face verification</strong><br>"
    "User is the name of your key, password the key itself."
)

CLOSED = ("/gradio_api/file={path:path}", "/gradio_api/file/{path:path}", "/file={path:path}",
          "/file/{path:path}", "/gradio_api/proxy={path:path}", "/proxy={path:path}",
          "/gradio_api/deep_link", "/gradio_api/custom_component/{path:path}")  # fmt: skip
"""Gradio's routes that serve files or other sites, write what a page shows into a file or what a
caller says into the log; the page needs none of them."""

GRADIO = "/gradio_api"
SENT_TO = ("/login", f"{GRADIO}/queue/join", f"{GRADIO}/cancel", f"{GRADIO}/reset")
"""Where the page sends anything but files; beside these, events that do not queue are run by name.
Gradio has more such routes, one of which hands what it is sent to ffmpeg."""


def build(
    service: FaceService, settings: Settings, downloads: Downloads | None = None
) -> gr.Blocks:
    """The page.

    Args:
        service: Answers everything.
        settings: Limits and defaults.
        downloads: Where exports are offered; its router must be in the web app.
    """
    stay_offline()
    keep_nothing()
    downloads = downloads or Downloads(private.FOLDER)
    with gr.Blocks(
        title=theme.TITLE, analytics_enabled=False, delete_cache=(60, 600), fill_width=False
    ) as page:
        kept = "face vectors" + (" and thumbnails" if settings.keep_thumbnails else "")
        gr.HTML(_HEADER.format(kept=kept), apply_default_css=False, js_on_load=None)
        with gr.Tabs():
            with gr.Tab("Verify", id="verify"):
                verify.tab(service, settings)
            with gr.Tab("Enroll", id="enroll"):
                enroll.tab(service, settings)
            with gr.Tab("Search", id="search"):
                search.tab(service, settings)
            with gr.Tab("Gallery", id="gallery") as gallery_tab:
                gallery.tab(page, gallery_tab, service, downloads)
            with gr.Tab("Model", id="model") as model_tab:
                model.tab(page, model_tab, service, settings)
        # Comes with the first events Gradio hands out: from now on a click is heard.
        page.load(fn=None, js="() => { document.body.dataset.ready = 'yes'; }")
    # Only once this is set does Gradio check that a file it is told of was uploaded, and mounting
    # does not set it: any path on the server would be taken for an upload.
    page.has_launched = True
    page.queue(
        default_concurrency_limit=settings.workers, max_size=settings.queue or 1, api_open=False
    )
    return page


def mount(app: FastAPI, service: FaceService, settings: Settings, path: str = "/") -> FastAPI:
    """Put the page into a web app, after all its other routes.

    Where keys are set up, the page asks for one: the key's name as user, the key as password.
    """
    downloads = Downloads(private.FOLDER)
    app.include_router(downloads.router)
    prefix = path.rstrip("/")
    for route in CLOSED:
        app.add_api_route(prefix + route, _closed, methods=["GET", "HEAD"], include_in_schema=False)
    gr.mount_gradio_app(
        app,
        build(service, settings, downloads),
        path,
        server_name=settings.host,
        server_port=settings.port,
        auth=login.login(service.keys) if service.keys.required else None,
        auth_message=_LOGIN,
        theme=theme.theme(),
        head=theme.HEAD,
        footer_links=[],
        run_history=False,
        enable_monitoring=False,
        pwa=False,
        mcp_server=False,
        ssr_mode=False,
        show_error=False,
        max_file_size=settings.max_request_bytes,
    )
    mounted = app.router.routes.pop().app
    mounted.tokens = login.Users()
    app.router.routes.append(_BesideApi(path, mounted, service.keys))
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[Any]:
        with private.folder():
            async with inner(served) as state:
                yield state

    app.router.lifespan_context = lifespan
    return app


class _BesideApi(Mount):
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
                await _closed()(scope, receive, send)
                return
        await super().handle(scope, receive, send)

    def _user(self, scope: Scope) -> str | None:
        """Who is logged in, from the cookies in which Gradio keeps it."""
        cookies, name = HTTPConnection(scope).cookies, self.app.cookie_id
        token = cookies.get(f"access-token-{name}") or cookies.get(f"access-token-unsecure-{name}")
        return self.app.tokens.get(token)


def _closed() -> Response:
    return plain_answer(404, "not_found", "The page has nothing here.")
