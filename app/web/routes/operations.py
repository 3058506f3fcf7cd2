"""Routes for operations: health, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from app.web.dependencies import PROBLEMS, AppState, Reading, State, shown
from app.web.metrics import CONTENT_TYPE
from app.web.schemas import responses
from model.errors import IndexUnavailable

router = APIRouter(tags=["operation"])

MOST_BEHIND = 10_000
"""Most changes the index may lag behind while the server is ready; it catches up in seconds."""


@router.get("/health", response_model=responses.HealthAnswer, summary="Is the process alive?")
async def health(state: State) -> Response:
    return shown(_healthy(state))


@router.get(
    "/ready",
    response_model=responses.HealthAnswer,
    responses={503: PROBLEMS[503]},
    summary="Is there a place for a request, and the gallery?",
)
async def ready(state: State) -> Response:
    """Does not check a remote search engine: while it is down, verification works, and search and
    enrollment respond with 503. An index slightly behind the gallery catches up before the next
    search."""
    state.arrivals.require_room()
    behind = await state.queue.probe(state.service.context.search.behind)
    if behind > MOST_BEHIND:
        raise IndexUnavailable(
            f"The index is {behind} changes behind the gallery. Try again.", retry_after=5
        )
    return shown(_healthy(state, behind))


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: PROBLEMS[status] for status in (401, 403, 429, 503)},
    summary="Figures for Prometheus",
)
async def metrics(service: Reading, state: State) -> Response:
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


def _healthy(state: AppState, behind: int | None = None) -> responses.HealthAnswer:
    embedder = state.service.context.pipeline.embedder
    return responses.HealthAnswer(engine=embedder.engine, device=embedder.device, behind=behind)
