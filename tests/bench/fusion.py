"""Which way of fusing a person's photos finds the right person most often?

``python -m tests.bench fusion --people peopleDevTest.txt`` enrolls LFW's people with several photos
with all but one of them and looks for them with the last; people with few photos play the
strangers. The first line of each fusion asks how well it ranks, at a threshold that lets in just
one of these strangers in a hundred. The second is what a user gets: the shipped calibration's
threshold, set on other people, for one in a hundred and as many strangers as
:func:`index.fusion.strangers` counts. Intervals are 95%, from drawing people with replacement.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import get_args

import numpy as np

from index.fusion import Fusion, fuse, strangers
from model.bundle import Bundle
from model.embedding.embedder import Embedder
from tests.bench._lfw import lfw_photos
from training.inputs.crops import crop_photos

FPIR = 0.01


def main(argv: Sequence[str]) -> int:
    """Prints two lines per fusion."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench fusion", description=__doc__)
    parser.add_argument("--lfw", type=Path, help="folder that holds lfw_funneled/ and the lists")
    parser.add_argument("--people", default="peopleDevTest.txt", help="protocol list of people")
    parser.add_argument("--photos", type=int, default=3, help="least photos of an enrolled person")
    parser.add_argument("--most", type=int, default=10, help="photos enrolled at most")
    parser.add_argument("--trials", type=int, default=500, help="bootstrap draws")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    arguments = parser.parse_args(argv)
    bundle = Bundle.load()
    paths = lfw_photos(arguments.lfw, people=arguments.people)
    crops = crop_photos(paths, cache=arguments.cache)
    vectors = Embedder(bundle).embed(np.asarray(crops.pixels[crops.found]))
    labels = np.array([path.parent.name for path in paths])[crops.found]
    random = np.random.default_rng(0)
    people = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    enrolled = [random.permutation(rows) for rows in people if len(rows) >= arguments.photos]
    foreigners = np.array([rows[0] for rows in people if len(rows) < arguments.photos])
    queries = np.array([rows[0] for rows in enrolled])
    print(
        f"{arguments.people}: {len(enrolled)} people enrolled with "
        f"{arguments.photos - 1} to {arguments.most} photos, one query each, "
        f"{len(foreigners)} strangers"
    )
    templates = [vectors[rows[1 : arguments.most + 1]] for rows in enrolled]
    photos = sum(map(len, templates))
    for fusion in get_args(Fusion):
        known = _scores(vectors[queries], templates, fusion)
        assert np.isclose(known[0, 1], fuse(vectors[queries[0]], templates[1], fusion), atol=1e-5)
        foreign = _scores(vectors[foreigners], templates, fusion).max(axis=1)
        _rank(fusion, known, foreign, arguments.trials)
        met = strangers(fusion, len(templates), photos)
        search = bundle.calibration.search_threshold(met, FPIR)
        print(f"{'':12}counting {met:,} strangers, threshold {search.threshold:.3f}: ", end="")
        _serve(known, foreign, search.threshold, arguments.trials)
    return 0


def _scores(queries: np.ndarray, templates: list[np.ndarray], fusion: Fusion) -> np.ndarray:
    """Score of every query with every person, ``(q, p)``; :func:`fuse` for whole matrices."""
    if fusion == "template":
        means = np.array([photos.mean(axis=0) for photos in templates])
        return queries @ (means / np.linalg.norm(means, axis=1, keepdims=True)).T
    return np.stack([(queries @ photos.T).max(axis=1) for photos in templates], axis=1)


def _rank(fusion: str, known: np.ndarray, foreign: np.ndarray, trials: int) -> None:
    own = np.diag(known)
    first = known.argmax(axis=1) == np.arange(len(known))

    def measure(chosen: np.ndarray, others: np.ndarray) -> tuple[float, float]:
        threshold = np.quantile(foreign[others], 1 - FPIR)
        missed = ~(first[chosen] & (own[chosen] >= threshold))
        return float(first[chosen].mean()), float(missed.mean())

    rank1, missed = _with_intervals(measure, len(known), len(foreign), trials)
    print(f"  {fusion:9s} rank-1 {rank1}   missed at 1% false alarms {missed}")


def _serve(known: np.ndarray, foreign: np.ndarray, threshold: float, trials: int) -> None:
    right = (known.argmax(axis=1) == np.arange(len(known))) & (known.max(axis=1) >= threshold)

    def measure(chosen: np.ndarray, others: np.ndarray) -> tuple[float, float]:
        return float((foreign[others] >= threshold).mean()), float(right[chosen].mean())

    let_in, named = _with_intervals(measure, len(known), len(foreign), trials)
    print(f"{let_in} let in, {named} named rightly")


def _with_intervals(
    measure: Callable[[np.ndarray, np.ndarray], tuple[float, float]],
    people: int,
    outsiders: int,
    trials: int,
) -> list[str]:
    """Both figures of ``measure`` as text, with intervals from drawing people and strangers."""
    random = np.random.default_rng(1)
    draws = [
        measure(random.integers(people, size=people), random.integers(outsiders, size=outsiders))
        for _ in range(trials)
    ]
    ends = np.quantile(draws, [0.025, 0.975], axis=0).T
    values = measure(np.arange(people), np.arange(outsiders))
    return [
        f"{value:.1%} [{low:.1%}, {high:.1%}]"
        for value, (low, high) in zip(values, ends, strict=True)
    ]
