"""Request and response of many pairs in one call."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, Field

from app.usecases.many import Pair, PairAnswer
from app.web.errors import Invalid
from app.web.schemas import responses, serializers
from app.web.schemas.fields import TargetRate, only
from app.web.schemas.requests import NamedPhoto, PhotoList

MOST_PAIRS = 1000

Names = Annotated[tuple[str, str], only("the names of two photos")]


class VerifyManyRequest(PhotoList):
    photos: list[NamedPhoto] = Field(
        min_length=1, description="The photos, each with a name of its own."
    )
    pairs: Annotated[
        list[Names], Field(min_length=1, max_length=MOST_PAIRS), only(f"1 to {MOST_PAIRS} pairs")
    ] = Field(description="The names of the two photos of each pair.")
    target_fmr: TargetRate | None = Field(None, description="As in /v1/verify.")


class PairAnswerOut(BaseModel):
    first: str = Field(description="Name of the first photo.")
    second: str = Field(description="Name of the second photo.")
    same_file: bool = Field(description="True: both photos are one and the same picture.")
    headline: str = Field(description="The answer in one line, or why there is none.")
    verdict: responses.VerdictOut | None = Field(description="Null if there is no answer.")
    error: str | None = Field(description="Code of what is wrong with a photo, else null.")


class VerifyManyAnswer(responses.Answer):
    answers: list[PairAnswerOut] = Field(description="One per pair, in the order asked.")
    model: str = Field(description="The model's name.")


def photos_and_pairs(body: VerifyManyRequest) -> tuple[dict[str, bytes], list[Pair]]:
    """Return the photos by name, and the pairs.

    Raises:
        Invalid: Two photos have the same name, or a pair names a photo that was not sent.
    """
    photos = {photo.name: photo.image for photo in body.photos}
    if len(photos) < len(body.photos):
        raise Invalid("Two photos have the same name. Give each a name of its own.")
    missing = {name for pair in body.pairs for name in pair} - set(photos)
    if missing:
        raise Invalid(f"The photo {min(missing)[:255]!r} is in a pair, but was not sent.")
    return photos, [Pair(*pair) for pair in body.pairs]


def answered(found: list[PairAnswer], model: str) -> VerifyManyAnswer:
    return VerifyManyAnswer(answers=[_answer(each) for each in found], model=model)


def _answer(found: PairAnswer) -> PairAnswerOut:
    return PairAnswerOut(
        first=found.pair.first,
        second=found.pair.second,
        same_file=found.same_file,
        headline=found.headline,
        verdict=serializers.verdict(found.verdict, found.headline) if found.verdict else None,
        error=found.error or None,
    )
