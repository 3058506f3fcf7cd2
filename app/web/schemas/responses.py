"""Response schemas of the REST API."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from app.web.errors import request_id


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


FiniteOrNull = Annotated[float | None, BeforeValidator(_finite)]
"""JSON has no infinity."""


class Schema(BaseModel):
    """Base of what `model_validate` fills from the attributes of a result of the same names.

    A field whose attribute has another name gives it as the alias.
    """

    model_config = ConfigDict(from_attributes=True, validate_by_name=True, validate_by_alias=True)


class Answer(Schema):
    """Base of all responses."""

    request_id: str = Field(
        default_factory=request_id.get, description="Also in the header X-Request-ID and the log."
    )


class ErrorBody(BaseModel):
    code: str = Field(description="Stable, for programs.")
    message: str = Field(description="What happened and what to do, for people.")
    details: dict[str, Any] = Field(description="Facts that depend on the code.")


class ErrorAnswer(Answer):
    error: ErrorBody = Field(description="What went wrong.")


class FacialArea(BaseModel):
    """A face's position in pixels of the upright photo, with DeepFace's field names."""

    x: int = Field(description="Left edge.")
    y: int = Field(description="Top edge.")
    w: int = Field(description="Width.")
    h: int = Field(description="Height.")
    left_eye: tuple[int, int] = Field(description="The person's own left eye.")
    right_eye: tuple[int, int] = Field(description="The person's own right eye.")


class ReasonOut(Schema):
    code: str = Field(description="Stable, for programs.")
    message: str = Field(description="The reason and what to do about it.")
    value: float = Field(description="What was measured.")
    limit: float = Field(description="The limit it missed.")


class QualityOut(Schema):
    score: float = Field(description="0 to 1; 1 is a face with nothing to complain about.")
    reasons: list[ReasonOut] = Field(description="Why it may mislead, worst first.")


class IgnoredOut(Schema):
    background_faces: int = Field(description="Small faces in the background.")
    possible_faces: int = Field(description="Doubtful finds, possibly also a face.")


class FaceOut(BaseModel):
    number: int = Field(description="From 1, largest first.")
    facial_area: FacialArea = Field(description="Box and eyes as in DeepFace.")
    box: tuple[float, float, float, float] = Field(description="Left, top, right, bottom.")
    landmarks: list[tuple[float, float]] = Field(
        description="Eyes, nose tip, mouth corners; left to right as seen in the photo."
    )
    confidence: float = Field(description="The detector's confidence, 0 to 1.")
    certain: bool = Field(description="False: possibly a face; never picked unless asked for.")
    quality: QualityOut = Field(description="How far the face can be trusted.")
    ignored: IgnoredOut = Field(description="Other finds in the photo that were not used.")


class RateOut(Schema):
    value: FiniteOrNull = Field(description="The point estimate.")
    low: FiniteOrNull = Field(description="Lower end of the 95% interval.")
    high: FiniteOrNull = Field(description="Upper end of the 95% interval.")
    errors: int = Field(description="Errors counted.")
    trials: int = Field(description="Pairs they were counted among.")


class VerdictOut(BaseModel):
    verified: bool = Field(description="Whether the decision is `same`. As in DeepFace.")
    decision: Literal["same", "different", "inconclusive"] = Field(description="The answer.")
    distance: float = Field(description="1 - score: cosine distance. As in DeepFace.")
    threshold: float = Field(
        description="Distance up to which the decision is `same`. As in DeepFace."
    )
    score: float = Field(description="Cosine similarity, -1 to 1.")
    score_threshold: float = Field(description="Score from which the decision is `same`.")
    reject_below: float = Field(description="Score below which it is `different`.")
    target_fmr: float = Field(description="The false-match rate asked for.")
    fmr: RateOut = Field(description="Share of stranger pairs that look at least this alike.")
    fnmr: RateOut = Field(description="Share of same-person pairs that look less alike.")
    likelihood_ratio: FiniteOrNull = Field(
        description="How many times likelier the score is for one person than for two; null when "
        "it is beyond all bounds, or not known because a photo is poorer than those measured."
    )
    posterior: float | None = Field(
        description="Probability of 'same', when a prior was given; null as the likelihood ratio "
        "where that is not known."
    )
    supported: bool = Field(description="False: the calibration is too small for the target.")
    headline: str = Field(description="The answer in one line, with its strength.")
    reasons: list[str] = Field(description="Sentences for people, most important first.")


class PairOut(VerdictOut):
    face1: int = Field(description="Number of the face in the first photo.")
    face2: int = Field(description="Number of the face in the second photo.")


class FacialAreas(BaseModel):
    img1: FacialArea = Field(description="In the first photo.")
    img2: FacialArea = Field(description="In the second photo.")


class TwoFaces(BaseModel):
    img1: FaceOut = Field(description="In the first photo.")
    img2: FaceOut = Field(description="In the second photo.")


class VerifyAnswer(VerdictOut, Answer):
    model: str = Field(description="The model's name. As in DeepFace.")
    model_id: str = Field(description="Hash of weights and preprocessing.")
    calibration_id: str = Field(description="The calibration the figures come from.")
    detector_backend: str = Field("mtcnn", description="As in DeepFace.")
    similarity_metric: str = Field("cosine", description="As in DeepFace.")
    same_file: bool = Field(description="True: both photos are one and the same picture.")
    facial_areas: FacialAreas = Field(description="The two faces compared. As in DeepFace.")
    faces: TwoFaces = Field(description="The same with landmarks and quality.")
    time: float = Field(description="Seconds. As in DeepFace.")


class DetectAnswer(Answer):
    faces: list[FaceOut] = Field(description="Largest first; may be empty.")
    width: int = Field(description="Of the upright photo, in pixels.")
    height: int = Field(description="Of the upright photo, in pixels.")


class EmbeddingOut(FaceOut):
    embedding: list[float] = Field(description="Unit vector. As in DeepFace.")
    face_confidence: float = Field(description="The same as `confidence`. As in DeepFace.")


class EmbedAnswer(Answer):
    results: list[EmbeddingOut] = Field(description="One per face, largest first.")
    model: str = Field(description="The model's name.")
    model_id: str = Field(description="Vectors of two model ids must not be compared.")


class CandidateOut(BaseModel):
    person_id: str = Field(description="Id of the person.")
    identity: str = Field(description="The person's name. As in DeepFace.")
    score: float = Field(description="Cosine similarity to the person's photos.")
    distance: float = Field(description="1 - score. As in DeepFace.")
    margin: float | None = Field(description="Score minus the next person's.")
    false_match_chance: RateOut = Field(
        description="Chance that a stranger finds anyone in this gallery at this score or above."
    )
    known: bool = Field(description="Whether the score reaches the threshold.")
    photo_id: str | None = Field(description="The photo that matched best.")


class FaceSearchOut(BaseModel):
    face: FaceOut = Field(description="The face that was looked for.")
    known: bool = Field(description="False: nobody in the gallery is like enough.")
    candidates: list[CandidateOut] = Field(description="Best first, also below the threshold.")


class SearchAnswer(Answer):
    faces: list[FaceSearchOut] = Field(description="One per face, largest first.")
    gallery_size: int = Field(description="People searched among.")
    threshold: float = Field(description="Distance up to which a face counts as known.")
    score_threshold: float = Field(description="The same as a score.")
    target_fpir: float = Field(description="Chance of any false match that is held to.")
    supported: bool = Field(description="False: the calibration is too small for the target.")
    model: str = Field(description="The model's name.")
    time: float = Field(description="Seconds.")


class StoredPhotoOut(Schema):
    id: str = Field(description="The photo's id.")
    name: str = Field(validation_alias="source_name", description="What the sender called it.")
    quality: float | None = Field(description="0 to 1.")
    created: float = Field(description="Seconds since 1970.")
    note: str = Field(description="Why it was stored although the guard had refused it.")


class PersonOut(Schema):
    id: str = Field(description="The person's id.")
    name: str = Field(description="The name shown.")
    consent: str = Field(description="How and when the person agreed.")
    photos: int = Field(description="Photos stored.")
    created: float = Field(description="Seconds since 1970.")
    updated: float = Field(description="Seconds since 1970.")


class PersonAnswer(PersonOut, Answer):
    photo_list: list[StoredPhotoOut] = Field(description="Oldest first.")


class PeopleAnswer(Answer):
    people: list[PersonOut] = Field(description="Oldest first.")
    total: int = Field(description="People in the whole gallery.")


class PhotoResultOut(Schema):
    name: str = Field(description="The photo's name as sent.")
    status: str = Field(
        description="accepted, duplicate, conflict, outlier, poor_quality, no_face, several_faces, "
        "bad_image or too_large."
    )
    message: str = Field(description="The same as a sentence.")
    photo_id: str | None = Field(description="Its id, when accepted.")
    quality: QualityOut | None = Field(description="Of the face that was chosen.")
    details: dict[str, Any] = Field(
        description="Facts for programs, such as who it conflicts with."
    )


class EnrollAnswer(Answer):
    person_id: str = Field(description="Where the photos went.")
    name: str = Field(description="The person's name.")
    created: bool = Field(description="Whether the person is new.")
    accepted: int = Field(description="Photos stored by this request.")
    photos: list[PhotoResultOut] = Field(description="One per photo, in the order sent.")


class ErasedAnswer(Answer):
    person_id: str = Field(description="Whose data it was.")
    people: int = Field(description="Person records erased.")
    photos: int = Field(description="Photo records and vectors erased.")
    thumbnails: int = Field(description="Thumbnails erased.")
    complete: bool = Field(
        description="False where a trace is left for now, as another process reads or the search "
        "engine is away; it goes with the next change, `sync` or start."
    )


class HealthAnswer(Answer):
    status: Literal["ok"] = Field(
        default="ok", description="Always ok; otherwise there is no answer, or 503."
    )
    engine: str = Field(
        description="What runs the network: onnxruntime or torch, or onnxruntime-int8 for 8-bit "
        "numbers."
    )
    device: str = Field(description="Where it runs: cpu, cuda or mps.")
    behind: int | None = Field(
        None, description="From /ready: changes of the gallery that the index lacks."
    )
