"""Responses of the REST API about the model in use and its measured error rates."""

from __future__ import annotations

from typing import Any

from pydantic import AliasPath, Field

from app.web.schemas.responses import Answer, FiniteOrNull, RateOut, Schema


class ModelAnswer(Answer):
    model: str = Field(validation_alias="name", description="The model's name.")
    model_id: str = Field(description="Hash of weights and preprocessing.")
    dim: int = Field(description="Length of a vector.")
    engine: str = Field(description="What runs the network.")
    device: str = Field(description="Where it runs.")
    detector_backend: str = Field("mtcnn", description="What finds the faces.")
    calibration_id: str | None = Field(description="The calibration in use, if any.")
    provenance: dict[str, Any] = Field(description="Where the weights come from.")
    metrics: dict[str, Any] = Field(description="Measured figures.")
    versions: dict[str, str] = Field(description="Libraries the model was made with.")
    index: dict[str, Any] = Field(description="The vector index in use.")
    card: str = Field(description="The model card, Markdown.")


class ThresholdOut(Schema):
    target_fmr: float = Field(description="The false-match rate aimed at.")
    score_threshold: float = Field(
        validation_alias="threshold", description="Lowest score that counts as the same person."
    )
    fmr: RateOut = Field(description="Measured there on people it was not chosen on.")
    fnmr: RateOut = Field(description="Measured there on people it was not chosen on.")
    supported: bool = Field(description="Whether the sample is large enough for the target.")
    extrapolated: bool = Field(description="Whether it comes from the tail model, not counts.")


class EstimateOut(Schema):
    value: float = Field(description="The figure.")
    low: FiniteOrNull = Field(description="Lower end of the 95% interval over people.")
    high: FiniteOrNull = Field(description="Upper end of the 95% interval over people.")


class HistogramsOut(Schema):
    edges: list[float] = Field(description="Scores, one more than there are counts.")
    genuine: list[int] = Field(description="Same-person pairs between two edges.")
    impostor: list[int] = Field(description="Stranger pairs between two edges.")


class CalibrationAnswer(Answer):
    id: str = Field(description="Short hash of its contents.")
    model_id: str = Field(description="The model it was measured with.")
    protocol: str = Field(description="Which people and photos it was measured on.")
    created: str = Field(description="ISO date and time, UTC.")
    people: int = Field(description="People it was measured on; 0 if unknown.")
    photos: int = Field(description="Photos it was measured on; 0 if only scores were given.")
    genuine_pairs: int = Field(description="Pairs of one person.")
    impostor_pairs: int = Field(description="Pairs of strangers.")
    d_prime: EstimateOut = Field(
        validation_alias=AliasPath("summary", "d_prime"),
        description="Distance of the two distributions in pooled standard deviations.",
    )
    eer: EstimateOut = Field(
        validation_alias=AliasPath("summary", "eer"),
        description="Error rate where both kinds of error are equal.",
    )
    thresholds: list[ThresholdOut] = Field(
        validation_alias="targets", description="One for each target false-match rate."
    )
    histograms: HistogramsOut = Field(description="Both distributions, to draw.")
    warnings: list[str] = Field(description="What to beware of.")
