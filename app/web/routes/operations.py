"""REST for operation: health, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from app.web.dependencies import PROBLEMS, AppState, Reading, State, shown
from app.web.metrics import CONTENT_TYPE
from app.web.schemas import responses

router = APIRouter(tags=["operation"])


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
    """A search engine on another machine is not asked: while it is away, comparing two photos
    works, and searching and enrolling answer 503."""
    state.arrivals.require_room()
    await state.queue.probe(state.service.context.gallery.reader.count)
    return shown(_healthy(state))


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: PROBLEMS[status] for status in (401, 403, 429, 503)},
    summary="Figures for Prometheus",
)
async def metrics(service: Reading, state: State) -> Response:
    return Response(state.metrics.text(), media_type=CONTENT_TYPE)


def _healthy(state: AppState) -> responses.HealthAnswer:
    embedder = state.service.context.pipeline.embedder
    return responses.HealthAnswer(engine=embedder.engine, device=embedder.device)
