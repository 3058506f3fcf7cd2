"""Routes for people: enroll, list, rename, merge, forget."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request
from fastapi.responses import Response

from app.usecases.results import Enrollment
from app.web import bodies
from app.web.dependencies import PROBLEMS, Administering, Enrolling, Reading, State, shown
from app.web.schemas import fields, requests, responses, serializers
from model.errors import BadImage, EnrollmentConflict, FaceError, ImageTooLarge, NoFace

router = APIRouter(prefix="/v1/people", tags=["people"], responses=PROBLEMS)

PersonId = Annotated[fields.PersonId, Path(description="The person's id.")]
PhotoId = Annotated[
    str,
    Path(pattern=r"^[0-9]{1,18}$", description="The photo's id."),
    fields.only("a photo's id: 1 to 18 digits"),
]

REFUSALS: dict[str, type[FaceError]] = {
    "no_face": NoFace,
    "bad_image": BadImage,
    "too_large": ImageTooLarge,
}
"""Error of an enrollment whose photos all have this status; any other mix is a conflict."""


@router.get("", response_model=responses.PeopleAnswer, summary="People of the gallery")
async def people(
    service: Reading,
    state: State,
    query: Annotated[
        str,
        Query(max_length=200, description="Part of the name."),
        fields.only("text of at most 200 characters"),
    ] = "",
    limit: Annotated[
        int,
        Query(ge=1, le=1000, description="Most people listed."),
        fields.only("a whole number from 1 to 1000"),
    ] = 100,
    offset: Annotated[
        int,
        Query(ge=0, le=10**9, description="People to skip."),
        fields.only("a whole number from 0 to 1000000000"),
    ] = 0,
) -> Response:
    found = await state.queue.run(service.people, query=query, limit=limit, offset=offset)
    total = await state.queue.run(service.count)
    return shown(responses.PeopleAnswer(people=found, total=total))


@router.post(
    "",
    status_code=201,
    response_model=responses.EnrollAnswer,
    openapi_extra=bodies.body_schema(requests.EnrollRequest),
    summary="Enroll a person",
)
async def enroll(request: Request, service: Enrolling, state: State) -> Response:
    """The photos go to the person with that name, or to a new person if nobody has it. If no
    photo is accepted, nothing is stored. The response is then 422 if none shows a face, 400 if
    none can be read, and 409 otherwise."""
    body = await bodies.read(request, requests.EnrollRequest, state)
    result = await state.queue.run(
        service.enroll,
        body.name,
        bodies.uploads(body),
        consent=body.consent,
        overrides=body.overrides,
        new_person=body.new_person,
    )
    return _enrolled(result)


@router.post(
    "/{person_id}/photos",
    status_code=201,
    response_model=responses.EnrollAnswer,
    openapi_extra=bodies.body_schema(requests.PhotosRequest),
    summary="Add photos to a person",
)
async def add_photos(
    person_id: PersonId, request: Request, service: Enrolling, state: State
) -> Response:
    body = await bodies.read(request, requests.PhotosRequest, state)
    result = await state.queue.run(
        service.enroll,
        None,
        bodies.uploads(body),
        overrides=body.overrides,
        person_id=person_id,
    )
    return _enrolled(result)


@router.get("/{person_id}", response_model=responses.PersonAnswer, summary="One person")
async def person(person_id: PersonId, service: Reading, state: State) -> Response:
    found = await state.queue.run(service.person, person_id)
    photos = await state.queue.run(service.photos, person_id)
    return shown(serializers.person_with_photos(found, photos))


@router.patch(
    "/{person_id}",
    response_model=responses.PersonAnswer,
    openapi_extra=bodies.body_schema(requests.RenameRequest),
    summary="Rename a person",
)
async def rename(
    person_id: PersonId, request: Request, service: Enrolling, state: State
) -> Response:
    body = await bodies.read(request, requests.RenameRequest, state)
    renamed = await state.queue.run(service.rename, person_id, body.name)
    photos = await state.queue.run(service.photos, person_id)
    return shown(serializers.person_with_photos(renamed, photos))


@router.post(
    "/{person_id}/merge",
    response_model=responses.PersonAnswer,
    openapi_extra=bodies.body_schema(requests.MergeRequest),
    summary="Two entries are one person",
)
async def merge(
    person_id: PersonId, request: Request, service: Administering, state: State
) -> Response:
    body = await bodies.read(request, requests.MergeRequest, state)
    merged = await state.queue.run(service.merge, person_id, body.absorb)
    photos = await state.queue.run(service.photos, person_id)
    return shown(serializers.person_with_photos(merged, photos))


@router.delete(
    "/{person_id}/photos/{photo_id}",
    response_model=responses.ErasedAnswer,
    summary="Erase one photo",
)
async def remove_photo(
    person_id: PersonId, photo_id: PhotoId, service: Administering, state: State
) -> Response:
    erased = await state.queue.run(service.remove_photo, person_id, photo_id)
    return shown(responses.ErasedAnswer.model_validate(erased))


@router.delete("/{person_id}", response_model=responses.ErasedAnswer, summary="Forget a person")
async def forget(person_id: PersonId, service: Administering, state: State) -> Response:
    """Permanently erases the name, photos, vectors and thumbnails."""
    erased = await state.queue.run(service.forget, person_id)
    return shown(responses.ErasedAnswer.model_validate(erased))


def _enrolled(result: Enrollment) -> Response:
    if not result.accepted:
        raise _refusal(result)
    return shown(responses.EnrollAnswer.model_validate(result), 201)


def _refusal(result: Enrollment) -> FaceError:
    photos = [
        responses.PhotoResultOut.model_validate(each).model_dump(mode="json")
        for each in result.photos
    ]
    count, why = len(photos), photos[0]["message"]
    kinds = {REFUSALS.get(each.status, EnrollmentConflict) for each in result.photos}
    kind = kinds.pop() if len(kinds) == 1 else EnrollmentConflict
    if count == 1:
        return kind(f"The photo was not stored. {why}", photos=photos)
    return kind(f"None of the {count} photos was stored. The first: {why}", photos=photos)
