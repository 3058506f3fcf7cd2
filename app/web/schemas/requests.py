"""Request schemas of the REST API.

A request is either ``multipart/form-data`` with files or JSON with base64.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from app.web.schemas.fields import (
    FaceNumber,
    Name,
    OverrideName,
    PersonId,
    Picture,
    Reason,
    TargetRate,
    only,
)


class Request(BaseModel):
    """Base of all requests: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class DetectRequest(Request):
    img: Picture = Field(description="The photo.")


class EmbedRequest(DetectRequest):
    pass


class VerifyRequest(Request):
    img1: Picture = Field(description="The first photo.")
    img2: Picture = Field(description="The second photo.")
    target_fmr: TargetRate | None = Field(
        None, description="Highest share of stranger pairs taken for one person, such as 0.0001."
    )
    prior: TargetRate | None = Field(
        None, description="Probability of 'same person' before looking; gives `posterior`."
    )
    face1: FaceNumber | None = Field(
        None, description="Which face of the first photo, from 1, largest first."
    )
    face2: FaceNumber | None = Field(None, description="Which face of the second photo.")


class SearchRequest(Request):
    img: Picture = Field(description="The photo; every face in it is looked for.")
    top: Annotated[int, Field(ge=1, le=100), only("a whole number from 1 to 100")] = Field(
        5, description="Most people listed per face."
    )
    target_fpir: TargetRate | None = Field(
        None, description="Highest chance that a stranger is taken for anyone in the gallery."
    )
    face: FaceNumber | None = Field(None, description="Look for this face only, from 1.")


class NamedPhoto(Request):
    image: Picture = Field(description="The photo.")
    name: Annotated[str, Field(max_length=255), only("text of at most 255 characters")] = Field(
        "photo", description="What to call it in the answer."
    )


class PhotoIn(NamedPhoto):
    face: FaceNumber | None = Field(None, description="Which face is meant, from 1, largest first.")


class PhotoList(Request):
    """Base of requests with any number of photos."""

    photos: Sequence[NamedPhoto]


class PhotosRequest(PhotoList):
    photos: list[PhotoIn] = Field(min_length=1, description="Photos of one person.")
    overrides: dict[OverrideName, Reason] = Field(
        default_factory=dict,
        description="Store photos the guard would refuse: the kind of refusal and the reason.",
    )


class EnrollRequest(PhotosRequest):
    name: Name = Field(description="The person's name.")
    consent: Annotated[str, Field(max_length=2000), only("text of at most 2000 characters")] = (
        Field("", description="How and when the person agreed.")
    )
    new_person: Annotated[bool, only("true or false")] = Field(
        False, description="Make a new person even if someone of that name is in the gallery."
    )


class RenameRequest(Request):
    name: Name = Field(description="The new name.")


class MergeRequest(Request):
    absorb: PersonId = Field(
        description="Id of the person whose photos move here; that entry is erased."
    )
