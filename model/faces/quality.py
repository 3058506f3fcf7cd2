"""Face quality: a score that predicts misses, and the reasons for a low one.

Each measure has a cost: how much it adds to the log-odds that a same-person pair is among the
hardest. ``python -m training quality`` learns the costs. They never fall as a measure gets worse.
The costs of a photo add up, and the score is ``exp(-cost)``: at 0.5 the odds of a miss are twice
those of a flawless photo. ``quality_costs.json`` holds the costs and names their training data.

Reasons are advice with limits of their own: where the cost becomes noticeable (sharpness,
confidence), or where the measured range of photos ends. A reason alone never makes a photo too
poor. The calibration decides that, because it measured the error rates at each score.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from model.faces.align import TEMPLATE, similarity
from model.faces.picture import Picture
from model.faces.pose import pose
from model.types import CROP_SIZE, Face, Quality, Reason

_YY, _XX = np.mgrid[0:CROP_SIZE, 0:CROP_SIZE] + 0.5
_FACE = ((_XX - 56) / 36) ** 2 + ((_YY - 64) / 46) ** 2 <= 1
"""Mask of the part of an aligned crop that nearly always shows the face: forehead to chin."""

_FACE_POINTS = np.column_stack([_XX[_FACE], _YY[_FACE]])


@dataclass(frozen=True)
class Check:
    """One thing that can be wrong with a face.

    Attributes:
        code: Stable reason code.
        measure: Name of the measured value in ``Quality.measures``.
        limit: Value beyond which the reason is given.
        good: Value of a flawless face; above ``limit`` if large values are good.
        message: Sentence for people, with ``{value}`` and ``{limit}``.
    """

    code: str
    measure: str
    limit: float
    good: float
    message: str

    def fails(self, value: float) -> bool:
        return value < self.limit if self.good > self.limit else value > self.limit


CHECKS = (
    Check(
        "too_small",
        "eye_distance",
        limit=10.0,
        good=40.0,
        message="The face is small: {value:.0f} pixels between the eyes, {limit:.0f} are needed. "
        "Use a larger picture or move closer.",
    ),
    Check(
        "blurred",
        "sharpness",
        limit=0.12,
        good=0.3,
        message="The face is blurred: its sharpness is {value:.2f}, {limit:.2f} is needed. "
        "Hold still and focus on the face.",
    ),
    Check(
        "too_dark",
        "highlights",
        limit=0.25,
        good=0.71,
        message="The face is dark: its brightest parts reach {value:.0%} of full brightness, "
        "{limit:.0%} is needed. Add light from the front.",
    ),
    Check(
        "too_bright",
        "midtones",
        limit=0.81,
        good=0.6,
        message="The face is overexposed: half of it is brighter than {value:.0%} of full "
        "brightness, at most {limit:.0%} is accepted. Use less light.",
    ),
    Check(
        "turned_away",
        "turn",
        limit=45.0,
        good=25.0,
        message="The face is turned away by about {value:.0f} degrees, at most {limit:.0f} are "
        "accepted. Look towards the camera.",
    ),
    Check(
        "cut_off",
        "outside",
        limit=0.1,
        good=0.0,
        message="The picture cuts off {value:.0%} of the face, at most {limit:.0%} may be "
        "missing. Use a picture that shows it whole.",
    ),
    Check(
        "uncertain_face",
        "confidence",
        limit=0.95,
        good=0.9999,
        message="The detector is not sure this is a face: its confidence is {value:.1%}, "
        "{limit:.1%} is needed. Use a clearer picture.",
    ),
)
"""All reasons this module can give, with their limits."""


def measure(image: np.ndarray | Picture, face: Face, crop: np.ndarray) -> dict[str, float]:
    """Measure a face, without judging it.

    Args:
        image: The picture that shows ``face``, or its uint8 array ``(H, W, 3)``.
        face: The detected face.
        crop: uint8 array ``(112, 112, 3)``, the same face aligned.

    Returns:
        ``eye_distance``: pixels of ``image`` between the eyes.
        ``sharpness``: fine detail of the crop relative to its contrast, about 0 to 1.
        ``highlights``: brightness in ``[0, 1]`` that 1% of the face exceeds: eyes, teeth and
        gleams, which go dark when a photo is underexposed, whatever the colour of the skin.
        ``midtones``: brightness in ``[0, 1]`` that half of the face exceeds.
        ``yaw``, ``pitch``, ``roll``: degrees, see ``model.faces.pose``; ``turn``: degrees between
        the direction of the face and the camera.
        ``outside``: fraction of the face outside the picture, in ``[0, 1]``.
        ``confidence``: that of the detector, in ``[0, 1]``.
    """
    if crop.shape != (CROP_SIZE, CROP_SIZE, 3):
        raise ValueError(f"crop must be ({CROP_SIZE}, {CROP_SIZE}, 3), not {crop.shape}.")
    to_crop = similarity(face.landmarks, TEMPLATE)
    points = (_FACE_POINTS - to_crop[:, 2]) @ np.linalg.inv(to_crop[:, :2]).T
    height, width = image.shape[:2]
    inside = ((points >= 0) & (points <= (width, height))).all(axis=1)

    # Outside the picture the crop is black; mask it, or it would count as darkness and detail.
    mask = np.zeros_like(_FACE)
    mask[_FACE] = inside
    luma = crop @ np.array([0.299, 0.587, 0.114]) / 255
    lit = luma[mask] if mask.any() else np.zeros(1)
    inner = mask[1:-1, 1:-1]
    for rows in (slice(None, -2), slice(2, None)):
        inner = inner & mask[rows, 1:-1] & mask[1:-1, rows]
    laplacian = (
        luma[:-2, 1:-1] + luma[2:, 1:-1] + luma[1:-1, :-2] + luma[1:-1, 2:] - 4 * luma[1:-1, 1:-1]
    )
    contrast = float(lit.std())
    detail = float(laplacian[inner].std()) if inner.any() else 0.0

    angles = pose(face.landmarks)
    facing = math.cos(math.radians(angles.yaw)) * math.cos(math.radians(angles.pitch))
    return {
        "eye_distance": float(np.linalg.norm(face.landmarks[1] - face.landmarks[0])),
        "sharpness": detail / contrast if contrast > 1e-6 else 0.0,
        "highlights": float(np.percentile(lit, 99)),
        "midtones": float(np.median(lit)),
        "yaw": angles.yaw,
        "pitch": angles.pitch,
        "roll": angles.roll,
        "turn": math.degrees(math.acos(min(1.0, max(-1.0, facing)))),
        "outside": float(1 - inside.mean()),
        "confidence": face.confidence,
    }


def assess(image: np.ndarray | Picture, face: Face, crop: np.ndarray) -> Quality:
    """Measure a face and score its quality; see :func:`measure` and :func:`judge`."""
    return judge(measure(image, face, crop))


def judge(measures: dict[str, float]) -> Quality:
    """Turn the result of :func:`measure` into a score and reasons, costliest first."""
    spent = costs(measures)
    failing = [check for check in CHECKS if check.fails(measures[check.measure])]
    reasons = tuple(
        Reason(
            code=check.code,
            message=check.message.format(value=measures[check.measure], limit=check.limit),
            value=measures[check.measure],
            limit=check.limit,
        )
        for check in sorted(failing, key=lambda check: -spent[check.measure])
    )
    return Quality(score=math.exp(-sum(spent.values())), reasons=reasons, measures=measures)


def costs(measures: dict[str, float]) -> dict[str, float]:
    """Return what each measure adds to the log-odds of a miss, by name; 0 for no problem."""
    return {name: _cost(measures[name], *points) for name, points in _points().items()}


@cache
def _points() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Load the cost curve of each measure: ascending values and their costs."""
    text = files("model.faces").joinpath("quality_costs.json").read_text(encoding="utf-8")
    return {
        name: (np.array([value for value, _ in points]), np.array([cost for _, cost in points]))
        for name, points in json.loads(text)["costs"].items()
    }


def _cost(value: float, values: np.ndarray, spent: np.ndarray) -> float:
    """Interpolate the cost curve; beyond its bad end, extrapolate with its mean slope."""
    beyond = values[0] - value if spent[0] > spent[-1] else value - values[-1]
    slope = abs(spent[0] - spent[-1]) / (values[-1] - values[0])
    return float(np.interp(value, values, spent)) + max(0.0, float(beyond)) * float(slope)
