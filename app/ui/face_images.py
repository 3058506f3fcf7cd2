"""Serve the gallery's face images by URL, to callers with the scope ``read``."""

from __future__ import annotations

from urllib.parse import quote

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.auth import NotAuthenticated
from app.service import FaceService
from app.web.callers import Caller
from app.web.errors import plain_answer
from model.errors import FaceError

PREFIX = "/page/face/"


def address(person_id: str) -> str:
    """Return the URL of a person's face; the browser loads it when it scrolls into view."""
    return PREFIX + quote(person_id, safe="")


class FaceImages:
    """The route that serves face images."""

    def __init__(self, service: FaceService) -> None:
        self.service = service
        self.router = APIRouter(include_in_schema=False)
        self.router.add_api_route(PREFIX + "{person_id}", self._face, methods=["GET"])

    def _face(self, person_id: str, request: Request) -> Response:
        caller: Caller = request.scope["caller"]
        try:
            if caller.principal is None:
                raise NotAuthenticated("Log in first.")
            face = self.service.acting_as(caller.principal).face_of(person_id)
        except FaceError as error:
            return plain_answer(404, error.code, "There is no such face.")
        if face is None:
            return plain_answer(404, "not_found", "There is no such face.")
        return Response(face, media_type="image/jpeg", headers={"Cache-Control": "no-store"})
