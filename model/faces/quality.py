"""A face -> how likely it is to be missed, and what is wrong with it.

The score predicts errors. Each measure has a cost, learnt by ``python -m training quality`` on
pairs of one person: how much it adds to the log-odds that such a pair is among the hardest. Costs
never fall as a measure gets worse, those of one photo add up, and the score is ``exp(-cost)``: at
0.5 the odds of a miss are twice those of a flawless photo. ``quality_costs.json`` holds the costs
and what they were learnt on.

Reasons are advice and have limits of their own: where a cost is felt (sharpness, confidence), or
where photos end that anything was measured on. A reason alone never makes a photo too poor; that
is for the calibration to say, which measured how often photos of this score err.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import numpy as np

from model.faces.align import TEMPLATE, similarity
from model.faces.pose import pose
from model.types import CROP_SIZE, Face, Quality, Reason

_YY, _XX = np.mgrid[0:CROP_SIZE, 0:CROP_SIZE] + 0.5
_FACE = ((_XX - 56) / 36) ** 2 + ((_YY - 64) / 46) ** 2 <= 1
"""The part of an aligned crop that is face in nearly every picture: forehead to chin."""

_FACE_POINTS = np.column_stack([_XX[_FACE], _YY[_FACE]])


@dataclass(frozen=True)
class Check:
    """One thing that can be wrong with a face.

    Attributes:
        code: Stable reason code.
        measure: Name of the measured value in ``Quality.measures``.
        limit: Value past which the reason is given.
        good: Value of a face nothing is wrong with; above ``limit`` when large values are good.
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
"""Every reason this module can give, and when."""


def measure(image: np.ndarray, face: Face, crop: np.ndarray) -> dict[str, float]:
    """Measure a face, without judging it.

    Args:
        image: uint8 array ``(H, W, 3)``, the picture ``face`` was found in.
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
        ``outside``: share of the face that lies beyond the edge of the picture.
        ``confidence``: the detector's.
    """
    if crop.shape != (CROP_SIZE, CROP_SIZE, 3):
        raise ValueError(f"crop must be ({CROP_SIZE}, {CROP_SIZE}, 3), not {crop.shape}.")
    to_crop = similarity(face.landmarks, TEMPLATE)
    points = (_FACE_POINTS - to_crop[:, 2]) @ np.linalg.inv(to_crop[:, :2]).T
    height, width = image.shape[:2]
    inside = ((points >= 0) & (points <= (width, height))).all(axis=1)

    # Beyond the edge the crop is black: that must not pass for darkness or for detail.
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


def assess(image: np.ndarray, face: Face, crop: np.ndarray) -> Quality:
    """Measure a face and judge how far it can be trusted; see :func:`measure`, :func:`judge`."""
    return judge(measure(image, face, crop))


def judge(measures: dict[str, float]) -> Quality:
    """Judge what :func:`measure` found: the score and, costliest first, the reasons."""
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
    """What each measure adds to the log-odds of a miss, by its name; 0 where nothing is wrong."""
    return {name: _cost(measures[name], *points) for name, points in _points().items()}


@cache
def _points() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Values, ascending, and costs by measure."""
    text = files("model.faces").joinpath("quality_costs.json").read_text(encoding="utf-8")
    return {
        name: (np.array([value for value, _ in points]), np.array([cost for _, cost in points]))
        for name, points in json.loads(text)["costs"].items()
    }


def _cost(value: float, values: np.ndarray, spent: np.ndarray) -> float:
    """Read off the curve; past its bad end it goes on rising as steeply as it did on average."""
    beyond = values[0] - value if spent[0] > spent[-1] else value - values[-1]
    slope = abs(spent[0] - spent[-1]) / (values[-1] - values[0])
    return float(np.interp(value, values, spent)) + max(0.0, float(beyond)) * float(slope)
