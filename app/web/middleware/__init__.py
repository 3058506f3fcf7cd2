"""The middleware every request passes, page and API alike, outermost first:

headers -> request log -> site -> access -> body -> the app. Each raises an error of
:mod:`app.web.errors` to refuse a request; the request log answers with it.
"""

from __future__ import annotations

from fastapi import FastAPI

from app.web.dependencies import AppState
from app.web.middleware.access import AccessMiddleware
from app.web.middleware.body import BodyMiddleware
from app.web.middleware.headers import HeadersMiddleware
from app.web.middleware.request_log import RequestLogMiddleware
from app.web.middleware.site import SiteMiddleware


def install(app: FastAPI, state: AppState) -> None:
    """Put all middleware around an app."""
    # What is added last is asked first.
    for kind in (
        BodyMiddleware,
        AccessMiddleware,
        SiteMiddleware,
        RequestLogMiddleware,
        HeadersMiddleware,
    ):
        app.add_middleware(kind, state=state)
