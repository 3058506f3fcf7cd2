"""The middleware around the page and the API.

Outermost first: headers -> request log -> site -> access -> body -> the app. To refuse a request,
a middleware raises an error; the request log turns it into a response.
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
    # The middleware added last runs first.
    for kind in (
        BodyMiddleware,
        AccessMiddleware,
        SiteMiddleware,
        RequestLogMiddleware,
        HeadersMiddleware,
    ):
        app.add_middleware(kind, state=state)
