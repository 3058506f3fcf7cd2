"""The values that travel between rooms: frozen, typed, numpy only."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

CROP_SIZE = 112
"""Side in pixels of the aligned crop every network starts from."""

Decision = Literal["same", "different", "inconclusive"]


@dataclass(frozen=True, eq=False)
class Face:
    """One detected face, in pixels of the original upright image.

    Attributes:
        box: ``(left, top, right, bottom)``.
        landmarks: float32 array ``(5, 2)`` of x, y: the eye on the left of the picture, the
            eye on the right, nose tip, mouth corner left, mouth corner right.
        confidence: The detector's own confidence in ``[0, 1]``.
        certain: False for a find that may be no face at all.
    """

    box: tuple[float, float, float, float]
    landmarks: np.ndarray
    confidence: float
    certain: bool = True

    @property
    def area(self) -> float:
        left, top, right, bottom = self.box
        return max(0.0, right - left) * max(0.0, bottom - top)


@dataclass(frozen=True)
class Reason:
    """Why a face may mislead, with the value that was measured and the limit it missed."""

    code: str
    message: str
    value: float
    limit: float


@dataclass(frozen=True)
class Quality:
    """How far a face can be trusted.

    Attributes:
        score: ``[0, 1]``; 1 is a face with nothing to complain about.
        reasons: What pulls it down, worst first; empty for a good face.
        measures: Every measured value by name, whether or not it was a problem.
    """

    score: float
    reasons: tuple[Reason, ...] = ()
    measures: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, eq=False)
class Embedding:
    """A unit vector and the model that made it.

    Attributes:
        vector: float32 array ``(D,)`` of length one.
        model_id: The bundle's id; vectors of two ids must never be compared.
        quality: Quality score of the face it came from, if known.
    """

    vector: np.ndarray
    model_id: str
    quality: float | None = None


@dataclass(frozen=True)
class Rate:
    """An error rate with its 95% interval and what it was counted on.

    Attributes:
        value: The point estimate.
        low: Lower end of the 95% interval.
        high: Upper end of the 95% interval.
        errors: Number of errors counted.
        trials: Number of pairs they were counted among.
    """

    value: float
    low: float
    high: float
    errors: int
    trials: int


@dataclass(frozen=True)
class Verdict:
    """The answer to "are these two the same person?", with its evidence.

    Attributes:
        decision: ``same``, ``different`` or ``inconclusive``.
        score: Cosine similarity in ``[-1, 1]``.
        threshold: Score at and above which the decision is ``same``.
        reject_below: Score below which the decision is ``different``; between the two it is
            ``inconclusive``.
        target_fmr: The false-match rate the caller asked for.
        fmr: Share of stranger pairs that score at least this high.
        fnmr: Share of same-person pairs that score below this.
        likelihood_ratio: How many times likelier this score is for one person than for two; None
            for a photo poorer than any that was measured.
        posterior: Probability of "same person" given ``prior``; None without one of the two.
        prior: The prior probability the caller set, or None.
        d_genuine: Distance of the score from the genuine mean, in pooled standard deviations.
        d_impostor: Distance of the score from the impostor mean, in the same unit.
        supported: False when the calibration is too small to measure ``target_fmr``.
        calibration_id: Which calibration this came from.
        model_id: Which model made the two embeddings.
        reasons: Sentences a person can read, most important first.
    """

    decision: Decision
    score: float
    threshold: float
    reject_below: float
    target_fmr: float
    fmr: Rate
    fnmr: Rate
    likelihood_ratio: float | None
    posterior: float | None
    prior: float | None
    d_genuine: float
    d_impostor: float
    supported: bool
    calibration_id: str
    model_id: str
    reasons: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Verdict:
        values = dict(data)
        values["fmr"] = Rate(**values["fmr"])
        values["fnmr"] = Rate(**values["fnmr"])
        values["reasons"] = tuple(values["reasons"])
        return cls(**values)


@dataclass(frozen=True)
class Match:
    """One person found by a search.

    Attributes:
        person_id: The gallery's id of the person.
        name: The person's name.
        score: Fused cosine similarity to the person's photos.
        photo_id: The photo that matched best.
        margin: Score minus the next person's score, or None when there is no next.
    """

    person_id: str
    name: str
    score: float
    photo_id: str | None = None
    margin: float | None = None
