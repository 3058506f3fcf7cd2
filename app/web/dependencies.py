"""What the routes share: the service, the queue, and who is asking."""

from __future__ import annotations

import asyncio
from contextlib import nullcontext
from typing import Annotated, Any

from fastapi import Depends, Request
from fastapi.responses import Response
from pydantic import BaseModel

from app.auth import LOCAL, NotAuthenticated, secret_of
from app.service import FaceService
from app.web.limits import RateLimiter, WorkQueue, address_group
from app.web.metrics import Metrics
from app.web.middleware import LOGINS_PER_MINUTE
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


class AppState:
    """One web app's service, queue, figures and limits.

    Args:
        service: Answers everything.
    """

    def __init__(self, service: FaceService) -> None:
        self.settings = settings = service.settings
        self.service = service
        self.queue = WorkQueue(settings.workers, settings.queue, settings.queue_seconds)
        self.metrics = Metrics(self.queue)
        self.rate = RateLimiter(settings.rate_per_minute)
        self.failures = RateLimiter(LOGINS_PER_MINUTE)
        self._guessing = asyncio.Lock()

    async def acting(self, request: Request) -> FaceService:
        """The service on behalf of the key the request carries."""
        keys = self.service.keys
        if not keys.required:
            return self.service.acting_as(LOCAL)
        secret = secret_of(request.headers)
        caller = address_group(request.client.host if request.client else "unknown")
        # Unknown keys are tried one after the other: guesses at the same time count as well.
        async with nullcontext() if keys.recognises(secret) else self._guessing:
            self.failures.check(caller, take=False)
            try:
                principal = await self.queue.run(keys.principal, secret)
            except NotAuthenticated:
                self.failures.check(caller)
                raise
        self.rate.check(principal.name)
        return self.service.acting_as(principal)


def app_state(request: Request) -> AppState:
    """The state of the app a request came to."""
    return request.app.state.shared


async def acting(request: Request) -> FaceService:
    """The service on behalf of whoever sent the request."""
    return await app_state(request).acting(request)


State = Annotated[AppState, Depends(app_state)]
Acting = Annotated[FaceService, Depends(acting)]


def shown(body: BaseModel, status: int = 200) -> Response:
    """An answer as JSON; what is infinite becomes null."""
    return Response(body.model_dump_json(), status, media_type="application/json")
