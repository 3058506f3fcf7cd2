"""Routes for photos and the model: detect, embed, verify, search, model, calibration."""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from app.usecases.many import PairAnswer
from app.usecases.results import ChoiceNeeded
from app.web import bodies
from app.web.dependencies import PROBLEMS, Reading, State, shown
from app.web.schemas import model_in_use, pairs, requests, responses, serializers
from model.errors import SeveralFaces

router = APIRouter(prefix="/v1", tags=["faces"], responses=PROBLEMS)


@router.post(
    "/detect",
    response_model=responses.DetectAnswer,
    openapi_extra=bodies.body_schema(requests.DetectRequest),
    summary="Find the faces of a photo",
)
async def detect(request: Request, service: Reading, state: State) -> Response:
    body = await bodies.read(request, requests.DetectRequest, state)
    return shown(serializers.detected(await state.queue.run(service.detect, body.img)))


@router.post(
    "/embed",
    response_model=responses.EmbedAnswer,
    openapi_extra=bodies.body_schema(requests.EmbedRequest),
    summary="The vectors of a photo's faces",
)
async def embed(request: Request, service: Reading, state: State) -> Response:
    body = await bodies.read(request, requests.EmbedRequest, state)
    photo, vectors = await state.queue.run(service.embed, body.img)
    return shown(serializers.embedded(photo, vectors, service.context.bundle))


@router.post(
    "/verify",
    response_model=responses.VerifyAnswer,
    openapi_extra=bodies.body_schema(requests.VerifyRequest),
    summary="Are two photos of one person?",
)
async def verify(request: Request, service: Reading, state: State) -> Response:
    """If a photo shows several faces and no number is given, the response is 409
    `several_faces`; its details list every face and the verdict of every pair."""
    body = await bodies.read(request, requests.VerifyRequest, state)
    result = await state.queue.run(
        service.verify,
        body.img1,
        body.img2,
        target_fmr=body.target_fmr,
        prior=body.prior,
        face_a=body.face1,
        face_b=body.face2,
    )
    if isinstance(result, ChoiceNeeded):
        raise SeveralFaces(
            "There are several faces. Say which are meant with 'face1' and 'face2'.",
            **serializers.choice(result),
        )
    state.metrics.verdicts.labels(result.verdict.decision).inc()
    return shown(serializers.verified(result, service.context.bundle.name))


@router.post(
    "/verify-many",
    response_model=pairs.VerifyManyAnswer,
    openapi_extra=bodies.body_schema(pairs.VerifyManyRequest),
    summary="Many pairs of photos",
)
async def verify_many(request: Request, service: Reading, state: State) -> Response:
    """Each photo is sent once and may be in any number of pairs. A photo that cannot be used
    leaves its pairs without a verdict; the others are answered."""
    body = await bodies.read(request, pairs.VerifyManyRequest, state)
    photos, asked = pairs.photos_and_pairs(body)

    def work() -> list[PairAnswer]:
        return list(service.verify_many(asked, photos.__getitem__, target_fmr=body.target_fmr))

    found = await state.queue.run(work)
    for each in found:
        if each.verdict:
            state.metrics.verdicts.labels(each.verdict.decision).inc()
    return shown(pairs.answered(found, service.context.bundle.name))


@router.post(
    "/search",
    response_model=responses.SearchAnswer,
    openapi_extra=bodies.body_schema(requests.SearchRequest),
    summary="Who are the faces of this photo?",
)
async def search(request: Request, service: Reading, state: State) -> Response:
    body = await bodies.read(request, requests.SearchRequest, state)
    result = await state.queue.run(
        service.search, body.img, top=body.top, target_fpir=body.target_fpir, face=body.face
    )
    return shown(serializers.searched(result, service.context.bundle.name))


@router.get("/model", response_model=model_in_use.ModelAnswer, summary="The model in use")
async def model(service: Reading, state: State) -> Response:
    found = await state.queue.run(service.model_info)
    return shown(model_in_use.ModelAnswer.model_validate(found))


@router.get(
    "/calibration",
    response_model=model_in_use.CalibrationAnswer,
    summary="The measured error rates in use",
)
async def calibration(service: Reading, state: State) -> Response:
    found = await state.queue.run(service.calibration)
    return shown(model_in_use.CalibrationAnswer.model_validate(found))
