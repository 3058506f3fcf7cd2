"""Occlusion maps as images and in words: which regions of two faces carry their similarity."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup
from PIL import Image

from app.ui.cards import markup
from app.usecases.verify import Evidence
from model import wording

BANDS = (("the forehead", 0, 38), ("the eyes", 38, 62), ("the nose and cheeks", 62, 82),
         ("the mouth and chin", 82, 112))  # fmt: skip
"""Row ranges of the aligned crop, in which eyes and mouth are always at the same height."""

_FOR = np.array([235, 105, 20], np.float32)
_AGAINST = np.array([40, 110, 230], np.float32)


def card(crop_a: np.ndarray, crop_b: np.ndarray, evidence: Evidence) -> Markup:
    """Render both crops with their occlusion maps.

    Args:
        crop_a: uint8 ``(112, 112, 3)`` crop of the first photo.
        evidence: Drop of the score when each region is covered.
    """
    top = max(float(np.abs(each).max()) for each in (evidence.map_a, evidence.map_b)) or 1.0
    figures = [
        (caption, describe(drops), markup.encoded(_painted(crop, drops / top)))
        for caption, crop, drops in (
            ("First photo", crop_a, evidence.map_a),
            ("Second photo", crop_b, evidence.map_b),
        )
    ]
    return markup.render("regions.html", figures=figures)


def describe(drops: np.ndarray) -> str:
    """Name the two bands that matter most."""
    falls = np.clip(drops, 0, None)
    total = float(falls.sum())
    if total <= 0:
        return "no region speaks for one person"
    shares = sorted(((float(falls[a:b].sum()) / total, name) for name, a, b in BANDS), reverse=True)
    first, second = shares[:2]
    return (
        f"{wording.percent(first[0])} rests on {first[1]}, {wording.percent(second[0])} on "
        f"{second[1]}"
    )


def _painted(crop: np.ndarray, strength: np.ndarray) -> Image.Image:
    grey = crop.astype(np.float32).mean(2, keepdims=True).repeat(3, axis=2)
    alpha = (0.75 * np.clip(np.abs(strength), 0, 1))[..., None]
    paint = np.where(strength[..., None] >= 0, _FOR, _AGAINST)
    mixed = (1 - alpha) * grey + alpha * paint
    return Image.fromarray(mixed.astype(np.uint8)).resize((224, 224), Image.Resampling.BICUBIC)
