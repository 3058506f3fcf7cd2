"""Which way of fusing a person's photos finds the right person most often?

``python -m tests.bench fusion embeddings.npz`` takes an archive with ``embeddings`` ``(n, D)`` and
``labels`` ``(n,)``. People with several photos are enrolled with all but one of them and looked for
with the last; people with few photos play the strangers. Intervals come from drawing people with
replacement. The second line is what a user gets: at the threshold that should let in one stranger
in a hundred, from scores of single photos and :func:`index.fusion.strangers`, how many are let in
and how many people are named rightly.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from index.fusion import Fusion, fuse, strangers

FPIR = 0.01


def main(argv: Sequence[str]) -> int:
    """Prints one line per fusion."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench fusion", description=__doc__)
    parser.add_argument("embeddings", type=Path)
    parser.add_argument("--photos", type=int, default=3, help="least photos of an enrolled person")
    parser.add_argument("--most", type=int, default=10, help="photos enrolled at most")
    parser.add_argument("--trials", type=int, default=500, help="bootstrap draws")
    arguments = parser.parse_args(argv)
    with np.load(arguments.embeddings) as data:
        vectors = data["embeddings"].astype(np.float32)
        labels = data["labels"]
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    random = np.random.default_rng(0)
    people = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    enrolled = [random.permutation(rows) for rows in people if len(rows) >= arguments.photos]
    foreigners = np.array([rows[0] for rows in people if len(rows) < arguments.photos])
    queries = np.array([rows[0] for rows in enrolled])
    print(
        f"{arguments.embeddings.name}: {len(enrolled)} people enrolled with "
        f"{arguments.photos - 1} to {arguments.most} photos, one query each, "
        f"{len(foreigners)} strangers"
    )
    templates = [vectors[rows[1 : arguments.most + 1]] for rows in enrolled]
    single = _scores(vectors[foreigners], [photos[:1] for photos in templates], "max")
    photos = sum(map(len, templates))
    for fusion in get_args(Fusion):
        known = _scores(vectors[queries], templates, fusion)
        assert np.isclose(known[0, 1], fuse(vectors[queries[0]], templates[1], fusion), atol=1e-5)
        foreign = _scores(vectors[foreigners], templates, fusion).max(axis=1)
        _report(fusion, known, foreign, arguments.trials)
        met = strangers(fusion, len(templates), photos)
        needed = np.quantile(single, (1 - FPIR) ** (1 / met))
        right = (known.argmax(axis=1) == np.arange(len(known))) & (known.max(axis=1) >= needed)
        print(
            f"{'':12}counting {met:,} strangers, 1% promised: {(foreign >= needed).mean():.2%} let "
            f"in, {right.mean():.1%} named rightly"
        )
    return 0


def _scores(queries: np.ndarray, templates: list[np.ndarray], fusion: Fusion) -> np.ndarray:
    """Score of every query with every person, ``(q, p)``; :func:`fuse` for whole matrices."""
    if fusion == "template":
        means = np.array([photos.mean(axis=0) for photos in templates])
        return queries @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    kept = {"max": 1, "top2": 2, "mean": max(map(len, templates))}[fusion]
    columns = [np.sort(queries @ photos.T, axis=1)[:, -kept:].mean(axis=1) for photos in templates]
    return np.stack(columns, axis=1)


def _report(fusion: str, known: np.ndarray, foreign: np.ndarray, trials: int) -> None:
    own = np.diag(known)
    first = known.argmax(axis=1) == np.arange(len(known))

    def measure(chosen: np.ndarray, others: np.ndarray) -> tuple[float, float]:
        threshold = np.quantile(others, 1 - FPIR)
        missed = ~(first[chosen] & (own[chosen] >= threshold))
        return float(first[chosen].mean()), float(missed.mean())

    random = np.random.default_rng(1)
    draws = np.array(
        [
            measure(random.integers(len(own), size=len(own)), random.choice(foreign, len(foreign)))
            for _ in range(trials)
        ]
    )
    low, high = np.quantile(draws, [0.025, 0.975], axis=0)
    rank1, missed = measure(np.arange(len(own)), foreign)
    print(
        f"  {fusion:9s} rank-1 {rank1:.4f} [{low[0]:.4f}, {high[0]:.4f}]   "
        f"missed at 1% false alarms {missed:.4f} [{low[1]:.4f}, {high[1]:.4f}]"
    )
