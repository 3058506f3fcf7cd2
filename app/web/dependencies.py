"""State and dependencies that routes and middleware share: service, queue, limits and caller."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.auth import NotAuthenticated, Scope
from app.service import FaceService
from app.web.callers import Caller, Logins
from app.web.limits import ArrivalLimiter, RateLimiter, WorkQueue
from app.web.metrics import Metrics
from app.web.schemas import responses

PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": responses.ErrorAnswer, "description": text}
    for status, text in {
        400: "The request or a picture cannot be read.",
        401: "No API key, or a wrong one.",
        403: "The key's scope does not cover this, or the request comes from another site.",
        404: "There is no such person or photo.",
        408: "The request did not arrive in time.",
        409: "Several faces and no choice, or the gallery refuses.",
        413: "Too large.",
        415: "Neither multipart nor JSON, or a file is no picture.",
        422: "A field is not right, there is no face, or the calibration cannot answer.",
        429: "Too many requests; see Retry-After.",
        503: "Too much at once, or a part is not available; see Retry-After.",
    }.items()
}


WRONG_KEYS_PER_MINUTE = 10
ARRIVING_PER_CALLER = 8
LOGINS_ARRIVING, LOGINS_PER_ADDRESS = 32, 4


class AppState:
    """The service, queue, metrics, logins and limits of one web app.

    Attributes:
        arrivals: Limits concurrent uploads of authenticated callers.
        login_arrivals: Limits concurrent uploads of callers who are not logged in, so that they
            take no slots from the others.
        rate: Limits requests per key, or per address without a key.
        failures: Limits wrong keys and failed logins per address.
    """

    def __init__(self, service: FaceService) -> None:
        self.settings = settings = service.settings
        self.service = service
        self.logins = Logins()
        self.queue = WorkQueue(settings.workers, settings.queue, settings.queue_seconds)
        self.arrivals = ArrivalLimiter(
            settings.workers + settings.queue, ARRIVING_PER_CALLER, settings.queue_seconds
        )
        self.login_arrivals = ArrivalLimiter(
            LOGINS_ARRIVING, LOGINS_PER_ADDRESS, settings.queue_seconds
        )
        self.metrics = Metrics(self.queue)
        shared = service.context.stores.shared
        self.rate = RateLimiter(
            settings.rate_per_minute, everywhere=shared.take if shared else None
        )
        self.failures = RateLimiter(WRONG_KEYS_PER_MINUTE)


def app_state(request: Request) -> AppState:
    return request.app.state.shared


State = Annotated[AppState, Depends(app_state)]


def _acting(needed: Scope) -> Any:
    def acting(request: Request, state: State) -> FaceService:
        caller: Caller = request.scope["caller"]
        if caller.principal is None:
            raise NotAuthenticated("An API key is needed.")
        # Check before the body is parsed; the service would check too late.
        caller.principal.require(needed)
        return state.service.acting_as(caller.principal)

    return Depends(acting)


Reading = Annotated[FaceService, _acting("read")]
Enrolling = Annotated[FaceService, _acting("enroll")]
Administering = Annotated[FaceService, _acting("admin")]
"""Each of the three: the service for the caller, who must have at least that scope."""


def shown(body: BaseModel, status: int = 200) -> Response:
    """Return a JSON response; infinite numbers become null."""
    return Response(body.model_dump_json(), status, media_type="application/json")
