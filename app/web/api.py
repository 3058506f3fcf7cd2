"""The REST API: routes under /v1, their OpenAPI schema, and error handlers."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from fastapi.responses import Response
from fastapi_offline import FastAPIOffline
from starlette.exceptions import HTTPException

from app.service import FaceService
from app.web import errors, middleware
from app.web.dependencies import AppState
from app.web.routes import faces as routes_faces
from app.web.routes import operations as routes_operations
from app.web.routes import people as routes_people
from app.web.schemas import requests
from model.errors import FaceError


def create(service: FaceService) -> FastAPI:
    """Create the web app: the API, its documentation at /docs, health and metrics."""
    state = AppState(service)
    app = FastAPIOffline(
        title="Face verification",
        description="Every answer carries a measured error rate.",
        version="1",
        redoc_url=None,
        redirect_slashes=False,
        openapi_url="/openapi.json",
    )
    app.state.shared = state
    for routes in (routes_operations, routes_faces, routes_people):
        app.include_router(routes.router)
    middleware.install(app, state)
    app.openapi = lambda: _described(app)
    _handle_errors(app)
    return app


def _handle_errors(app: FastAPI) -> None:
    @app.exception_handler(FaceError)
    async def known(request: Request, error: FaceError) -> Response:
        return errors.answer(error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        found = [{**each, "loc": each["loc"][1:]} for each in error.errors()]
        return errors.answer(errors.invalid(found))

    @app.exception_handler(HTTPException)
    async def http(request: Request, error: HTTPException) -> Response:
        code, message = {
            404: ("not_found", "There is nothing at this address; /docs lists what there is."),
            405: ("method_not_allowed", f"This address does not take {request.method}; see /docs."),
        }.get(error.status_code, ("http_error", f"{error.detail}."))
        headers = dict(error.headers or {})
        return errors.plain_answer(error.status_code, code, message, headers=headers)


def _described(app: FastAPI) -> dict[str, Any]:
    if app.openapi_schema is None:
        schema = get_openapi(
            title=app.title, version=app.version, description=app.description, routes=app.routes
        )
        template = "#/components/schemas/{model}"
        parts = schema["components"]
        for kind in (requests.NamedPhoto, requests.PhotoIn):
            parts["schemas"][kind.__name__] = kind.model_json_schema(ref_template=template)
        parts["securitySchemes"] = {
            "bearer": {"type": "http", "scheme": "bearer"},
            "key": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
        }
        schema["security"] = [{}, {"bearer": []}, {"key": []}]
        app.openapi_schema = schema
    return app.openapi_schema
