"""REST for operation: health, readiness, metrics."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import PlainTextResponse, Response

from app import answers
from app.desk import PROBLEMS, Acting, AtDesk, Desk, shown
from app.metrics import CONTENT_TYPE

router = APIRouter(tags=["operation"])


@router.get("/health", response_model=answers.HealthAnswer, summary="Is the process alive?")
async def health(desk: AtDesk) -> Response:
    return shown(_healthy(desk))


@router.get(
    "/ready",
    response_model=answers.HealthAnswer,
    responses={503: PROBLEMS[503]},
    summary="Is there a place for a request, and the gallery?",
)
async def ready(desk: AtDesk) -> Response:
    """A search engine on another machine is not asked: while it is away, comparing two photos
    works, and searching and enrolling answer 503."""
    await desk.queue.probe(desk.service.count)
    return shown(_healthy(desk))


@router.get(
    "/metrics",
    response_class=PlainTextResponse,
    responses={status: PROBLEMS[status] for status in (401, 403, 429, 503)},
    summary="Figures for Prometheus",
)
async def metrics(service: Acting, desk: AtDesk) -> Response:
    return Response(desk.metrics.text(), media_type=CONTENT_TYPE)


def _healthy(desk: Desk) -> answers.HealthAnswer:
    embedder = desk.service.core.pipeline.embedder
    return answers.HealthAnswer(engine=embedder.engine, device=embedder.device)
