"""Data types shared by all packages: frozen dataclasses with numpy arrays."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

import numpy as np

CROP_SIZE = 112
"""Side in pixels of the aligned crop that every network takes."""

Decision = Literal["same", "different", "inconclusive"]


@dataclass(frozen=True, eq=False)
class Face:
    """One detected face, in pixels of the original upright image.

    Attributes:
        box: ``(left, top, right, bottom)``.
        landmarks: float32 array ``(5, 2)`` of x, y: the eye on the left of the picture, the
            eye on the right, nose tip, mouth corner left, mouth corner right.
        confidence: The detector's confidence in ``[0, 1]``.
        certain: False for a doubtful detection.
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
    """A quality problem of a face, with the measured value and the limit it violates."""

    code: str
    message: str
    value: float
    limit: float


@dataclass(frozen=True)
class Quality:
    """Quality of a face.

    Attributes:
        score: In ``[0, 1]``; 1 means no quality problems.
        reasons: Quality problems, worst first; empty for a good face.
        measures: All measured values, by name.
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
        vector: float32 unit vector ``(D,)``.
        model_id: The model's id; never compare vectors with different ids.
        quality: Quality score of the face it came from, if known.
    """

    vector: np.ndarray
    model_id: str
    quality: float | None = None


@dataclass(frozen=True)
class Rate:
    """An error rate with its 95% interval and counts.

    Attributes:
        errors: Number of errors counted.
        trials: Number of pairs tested.
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
        score: Cosine similarity in ``[-1, 1]``.
        threshold: Score at and above which the decision is ``same``.
        reject_below: Score below which the decision is ``different``; between the two it is
            ``inconclusive``.
        fmr: Fraction of stranger pairs that score at least this high.
        fnmr: Fraction of same-person pairs that score below this.
        likelihood_ratio: How many times likelier this score is for one person than for two; None
            if a photo's quality is below the calibrated range.
        posterior: Probability of "same person" given ``prior``; None without a prior or ratio.
        prior: The prior probability set by the caller, or None.
        d_genuine: Distance of the score from the genuine mean, in pooled standard deviations.
        d_impostor: Distance of the score from the impostor mean, in the same unit.
        supported: False if the calibration is too small to measure ``target_fmr``.
        reasons: Readable sentences, most important first.
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


@dataclass(frozen=True)
class Match:
    """One person found by a search.

    Attributes:
        score: Fused cosine similarity to the person's photos.
        photo_id: The photo that matched best.
        margin: Score minus the next person's score, or None if there is no next person.
    """

    person_id: str
    name: str
    score: float
    photo_id: str | None = None
    margin: float | None = None
