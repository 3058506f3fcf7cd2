"""REST on photos and the model: detect, embed, verify, search, model, calibration."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app import answers, present, requests
from app.desk import PROBLEMS, Acting, AtDesk, shown
from model.errors import SeveralFaces

router = APIRouter(prefix="/v1", tags=["faces"], responses=PROBLEMS)


@router.post(
    "/detect",
    response_model=answers.DetectAnswer,
    openapi_extra=requests.body_schema(requests.DetectRequest),
    summary="Find the faces of a photo",
)
async def detect(request: Request, service: Acting, desk: AtDesk) -> Response:
    body = await requests.read(request, requests.DetectRequest, desk.settings)
    return shown(present.detected(await desk.queue.run(service.detect, body.img)))


@router.post(
    "/embed",
    response_model=answers.EmbedAnswer,
    openapi_extra=requests.body_schema(requests.EmbedRequest),
    summary="The vectors of a photo's faces",
)
async def embed(request: Request, service: Acting, desk: AtDesk) -> Response:
    body = await requests.read(request, requests.EmbedRequest, desk.settings)
    photo, vectors = await desk.queue.run(service.embed, body.img)
    return shown(present.embedded(photo, vectors, service.core.bundle))


@router.post(
    "/verify",
    response_model=answers.VerifyAnswer,
    openapi_extra=requests.body_schema(requests.VerifyRequest),
    summary="Are two photos of one person?",
)
async def verify(request: Request, service: Acting, desk: AtDesk) -> Response:
    """With several faces in a photo and no number given the answer is 409 `several_faces`;
    its details hold every face and every pair's verdict."""
    body = await requests.read(request, requests.VerifyRequest, desk.settings)
    result = await desk.queue.run(
        service.verify,
        body.img1,
        body.img2,
        target_fmr=body.target_fmr,
        prior=body.prior,
        face_a=body.face1,
        face_b=body.face2,
    )
    if result.choice_needed:
        raise SeveralFaces(
            "There are several faces. Say which are meant with 'face1' and 'face2'.",
            **present.choice(result),
        )
    desk.metrics.verdicts.labels(result.verdict.decision).inc()
    return shown(present.verified(result, service.core.bundle.name))


@router.post(
    "/search",
    response_model=answers.SearchAnswer,
    openapi_extra=requests.body_schema(requests.SearchRequest),
    summary="Who are the faces of this photo?",
)
async def search(request: Request, service: Acting, desk: AtDesk) -> Response:
    body = await requests.read(request, requests.SearchRequest, desk.settings)
    result = await desk.queue.run(
        service.search, body.img, top=body.top, target_fpir=body.target_fpir, face=body.face
    )
    return shown(present.searched(result, service.core.bundle.name))


@router.get("/model", response_model=answers.ModelAnswer, summary="The model in use")
async def model(service: Acting, desk: AtDesk) -> Response:
    return shown(present.model(await desk.queue.run(service.model_info)))


@router.get(
    "/calibration",
    response_model=answers.CalibrationAnswer,
    summary="The measured error rates in use",
)
async def calibration(service: Acting, desk: AtDesk) -> Response:
    return shown(present.calibration(await desk.queue.run(service.calibration)))
