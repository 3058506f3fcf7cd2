"""Build the page from its tabs and mount it in the web app."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import gradio as gr
from fastapi import FastAPI
from starlette.routing import Mount

from app.service import FaceService
from app.settings import Settings
from app.ui import live, login, private_folder, theme
from app.ui.downloads import Downloads
from app.ui.face_images import FaceImages
from app.ui.gradio_patches import PageMount, keep_nothing, never, stay_offline
from app.ui.head import Header
from app.ui.navigation import Navigation
from app.ui.tabs.enroll import EnrollTab
from app.ui.tabs.gallery import GalleryTab
from app.ui.tabs.model import ModelTab
from app.ui.tabs.search import SearchTab
from app.ui.tabs.verify import VerifyTab
from app.web.dependencies import AppState


def build(
    service: FaceService, settings: Settings, downloads: Downloads | None = None
) -> gr.Blocks:
    """Build the page.

    Args:
        downloads: Offers exports and reports; the web app must include its router.
    """
    stay_offline()
    keep_nothing()
    downloads = downloads or Downloads(private_folder.FOLDER)
    with gr.Blocks(
        title=theme.TITLE, analytics_enabled=False, delete_cache=(60, 600), fill_width=False
    ) as page:
        _tabs(page, service, settings, downloads)
        # Runs with Gradio's first events, and marks the page as ready for clicks.
        page.load(fn=None, js="() => { document.body.dataset.ready = 'yes'; }")
    # Mounting does not set this. Without it, Gradio does not check that a file was uploaded, and
    # accepts any path on the server.
    page.has_launched = True
    page.queue(
        default_concurrency_limit=settings.workers, max_size=settings.queue or 1, api_open=False
    )
    return page


def _tabs(
    page: gr.Blocks, service: FaceService, settings: Settings, downloads: Downloads
) -> None:  # fmt: skip
    """Add the header and the tabs, each an object of its own."""
    Header(page, service, settings)
    with gr.Tabs() as tabs:
        with gr.Tab("Verify", id="verify"):
            VerifyTab(service, settings, downloads)
        with gr.Tab("Enroll", id="enroll", elem_id="tab-enroll"):
            enroll = EnrollTab(service, settings)
        with gr.Tab("Search", id="search"):
            search = SearchTab(service, settings, downloads)
        with gr.Tab("Gallery", id="gallery") as gallery_tab:
            gallery = GalleryTab(page, gallery_tab, service, downloads)
        with gr.Tab("Model", id="model") as model_tab:
            ModelTab(page, model_tab, service, settings)
    Navigation(service, settings, tabs, enroll, search, gallery).bind(page)


def mount(app: FastAPI, service: FaceService, settings: Settings, path: str = "/") -> FastAPI:
    """Mount the page in a web app, after all other routes.

    If keys are required, the page asks for a login: the key's name as user, the key as password.
    """
    downloads = Downloads(private_folder.FOLDER)
    app.include_router(downloads.router)
    app.include_router(FaceImages(service).router)
    state: AppState = app.state.shared
    app.include_router(live.router(state))
    app.include_router(login.router(state), prefix=path.rstrip("/"))
    gr.mount_gradio_app(
        app,
        build(service, settings, downloads),
        path,
        server_name=settings.host,
        server_port=settings.port,
        auth=never,
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
    mounted = app.router.routes.pop()
    assert isinstance(mounted, Mount)
    app.router.routes.append(PageMount(path, mounted.app, state))
    inner = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(served: FastAPI) -> AsyncIterator[Any]:
        with private_folder.folder():
            async with inner(served) as state:
                yield state

    app.router.lifespan_context = lifespan
    return app
