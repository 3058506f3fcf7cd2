"""Does ``calibrate --adapt`` keep promises better than the shipped thresholds?

A few people are drawn, the calibration is moved to them, and its rates are measured on the people
not drawn, all pairs of them. A target counts as kept in a draw if the false-match rate observed
there is not above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from model.calibration import Calibration
from model.calibration.adapt import adapt
from model.calibration.check import PromiseCheck, check_promises
from model.calibration.pairs.further import Further
from model.embedding.embedder import Embedder
from training.inputs.crops import crop_photos
from training.learn.inference import embed_crops
from training.measure.collections import held_out_people

DRAWN = (20, 50, 100)
DRAWS = 20
TARGETS = (1e-2, 1e-3, 1e-4)
FEWEST_LEFT = 25
"""Fewest people not drawn on whom rates are measured."""

MOST_PEOPLE, MOST_PHOTOS = 400, 4
"""Of LFW: people with two photos or more, and photos of each."""


def adapting_rows(
    calibration: Calibration, embedder: Embedder, folders: Sequence[Path], lfw: Sequence[Path],
    cache: Path,
) -> Iterator[str]:  # fmt: skip
    """One line per collection, number of people and target.

    Args:
        calibration: The shipped one.
        embedder: Its model.
        folders: Collections of which the held-out people are used.
        lfw: Photos of LFW people.
        cache: Folder for crops.
    """
    yield (
        f"{'people':34} {'target':>7}  {'kept: shipped':>13} {'moved':>6}   misses: shipped "
        "promise, observed; moved promise, observed"
    )
    yield from _rows(_lfw_people(lfw, embedder, cache), calibration)
    for folder in folders:
        yield from _rows(held_out_people(folder, embedder, cache=cache), calibration)


def _rows(people: Further, calibration: Calibration) -> Iterator[str]:
    names = np.unique(people.labels)
    for count in DRAWN:
        if len(names) - count < FEWEST_LEFT:
            continue
        draws = [_draw(people, names, count, calibration, seed) for seed in range(DRAWS)]
        for target in TARGETS:
            checks = [
                [next(each for each in side if each.target_fmr == target) for side in draw]
                for draw in draws
            ]
            kept = [sum(_kept(draw[side]) for draw in checks) for side in (0, 1)]
            misses = [
                np.mean([getattr(draw[side], name).value for draw in checks])
                for side in (0, 1)
                for name in ("promised_fnmr", "observed_fnmr")
            ]
            told = "{:.1%}, {:.1%}; {:.1%}, {:.1%}".format(*misses)
            title = f"{people.name}, {count} of {len(names)}"
            yield f"{title:34} {target:7.0e}  {kept[0]:13} {kept[1]:6}   {told}"


def _draw(
    people: Further, names: np.ndarray, count: int, calibration: Calibration, seed: int
) -> tuple[Sequence[PromiseCheck], Sequence[PromiseCheck]]:
    """The rates of the shipped and the moved calibration on the people not drawn."""
    own = np.isin(people.labels, np.random.default_rng(seed).permutation(names)[:count])
    moved = adapt(
        calibration, people.embeddings[own], people.labels[own], data_fingerprint="", seed=seed
    ).calibration
    rest = people.embeddings[~own], people.labels[~own]
    return tuple(check_promises(each, *rest, max_photos=None) for each in (calibration, moved))


def _kept(check: PromiseCheck) -> bool:
    return check.observed_fmr.value <= check.target_fmr


def _lfw_people(paths: Sequence[Path], embedder: Embedder, cache: Path) -> Further:
    """Some people with several photos, and some photos of each."""
    people: dict[str, list[Path]] = {}
    for path in paths:
        people.setdefault(path.parent.name, []).append(path)
    several = [found[:MOST_PHOTOS] for found in people.values() if len(found) > 1][:MOST_PEOPLE]
    labels = np.repeat(np.arange(len(several)), [len(found) for found in several])
    crops = crop_photos([path for found in several for path in found], cache=cache)
    rows = np.flatnonzero(crops.found)
    vectors = embed_crops(embedder, crops.pixels, rows, title="embedding LFW")
    return Further("LFW", vectors, labels[rows])
