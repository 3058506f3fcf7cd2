"""From the scores of a person's photos to one score for the person."""

from __future__ import annotations

import math
from typing import Literal, get_args

import numpy as np

Fusion = Literal["mean", "max", "top2", "template"]

DEFAULT_FUSION: Fusion = "template"
"""Of the four it finds the right person most often, by far: ``python -m tests.bench fusion``."""

SEVERAL = 3.0
"""Strangers that a person with several photos stands for under ``template``. Thresholds are
calibrated on pairs of photos, and the mean of a person's photos lies nearer to everyone than one
photo does. Chosen on LFW DevTrain: people with three to ten photos there draw 2.2 to 2.7 times the
false alarms of people with one, on average, with two models. More photos were not measured."""


def strangers(fusion: Fusion, people: int, photos: int) -> int:
    """How many comparisons with single photos of strangers a search is worth, at least 1.

    Args:
        fusion: How the photos of a person make one score.
        people: People in the gallery.
        photos: Photos in the gallery.

    Returns:
        With ``max`` and ``top2`` each photo is a chance of its own; the mean of all adds none.
    """
    worth = {"mean": people, "template": min(photos, SEVERAL * people)}.get(fusion, photos)
    return max(1, math.ceil(worth))


def fuse(query: np.ndarray, vectors: np.ndarray, fusion: Fusion) -> float:
    """The score of one person.

    Args:
        query: Unit vector ``(D,)``.
        vectors: The person's photos, ``(n, D)``, about unit length.
        fusion: ``mean``: mean over all photos. ``max``: the best photo. ``top2``: mean of the best
            two (the only one counts for itself). ``template``: cosine to the mean of all photos.

    Returns:
        Cosine similarity in ``[-1, 1]``.
    """
    vectors = np.asarray(vectors, np.float32)
    vectors = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    if fusion == "template":
        mean = vectors.mean(axis=0)
        return float(query @ mean / max(float(np.linalg.norm(mean)), 1e-12))
    scores = np.sort(vectors @ query)
    if fusion == "mean":
        return float(scores.mean())
    if fusion == "max":
        return float(scores[-1])
    if fusion == "top2":
        return float(scores[-2:].mean())
    raise ValueError(f"fusion must be one of {get_args(Fusion)}, got {fusion!r}")
