"""Search for the faces of one picture of the page's live camera; nothing of it is stored."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from app.auth import NotAuthenticated
from app.service import FaceService
from app.ui.cards.faces import boxed
from app.ui.cards.search import left_to_right, names_of
from app.web import bodies
from app.web.callers import Caller
from app.web.dependencies import AppState
from app.web.schemas.requests import SearchRequest
from model import wording
from model.errors import NoFace

ADDRESS = "/page/look"
NOBODY = {"boxes": "", "said": "No face in sight."}


def router(state: AppState) -> APIRouter:
    """Return the route that takes one picture and answers with boxes to lay over it."""
    routes = APIRouter(include_in_schema=False)
    routes.add_api_route(ADDRESS, _look(state), methods=["POST"])
    return routes


def _look(state: AppState) -> Callable[[Request], Coroutine[Any, Any, Response]]:
    async def look(request: Request) -> Response:
        caller: Caller = request.scope["caller"]
        if caller.principal is None:
            raise NotAuthenticated("Log in first.")
        service = state.service.acting_as(caller.principal)
        body = await bodies.read(request, SearchRequest, state)
        with state.queue.admit():
            seen = await state.queue.run(partial(_seen, service, body))
        return JSONResponse(seen, headers={"Cache-Control": "no-store"})

    return look


def _seen(service: FaceService, body: SearchRequest) -> dict[str, str]:
    try:
        found = service.search(body.img, top=1, target_fpir=body.target_fpir)
    except NoFace:
        return NOBODY
    faces = left_to_right(found)
    said = [each.best.match.name for each in faces if each.best]
    if unknown := sum(each.best is None for each in faces):
        said.append(wording.plural(unknown, "unknown face"))
    boxes = boxed("Live camera", found.photo, names=names_of(found), longest=0)
    return {"boxes": boxes, "said": ", ".join(said)}
