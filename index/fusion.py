"""Fuses the scores of a person's photos into one score."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

Fusion = Literal["max", "template"]

DEFAULT_FUSION: Fusion = "template"
"""Finds the right person far more often than ``max``: see ``python -m tests.bench fusion``."""

SEVERAL = 3.0
"""Number of strangers that a person with several photos counts as under ``template``. Thresholds
are calibrated on pairs of photos, but the mean of a person's photos is closer to everyone than a
single photo. Chosen on LFW DevTrain: people with three to ten photos cause 2.2 to 2.7 times the
false alarms of people with one, on average, with two models. More photos were not measured."""


def strangers(fusion: Fusion, people: int, photos: int) -> int:
    """Effective number of stranger comparisons in a search.

    Returns:
        The equivalent number of comparisons with single photos, at least 1. With ``max`` each
        photo counts.
    """
    worth = min(photos, SEVERAL * people) if fusion == "template" else photos
    return max(1, math.ceil(worth))


def fuse(query: np.ndarray, vectors: np.ndarray, fusion: Fusion) -> float:
    """Computes the score of one person.

    Args:
        query: Unit vector ``(D,)``.
        vectors: The person's photos, ``(n, D)``, about unit length.
        fusion: ``max``: the best photo. ``template``: cosine to the mean of all photos.

    Returns:
        Cosine similarity in ``[-1, 1]``.
    """
    vectors = np.asarray(vectors, np.float32)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    if fusion == "template":
        mean = vectors.mean(axis=0)
        return float(query @ mean / max(float(np.linalg.norm(mean)), 1e-12))
    if fusion == "max":
        return float((vectors @ query).max())
    raise ValueError(f"fusion must be one of {get_args(Fusion)}, got {fusion!r}")
