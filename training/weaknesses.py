"""Where a model errs more: by what is measured of the photos, and by groups of people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from model.calibration.person_counts import count_people
from model.calibration.scores import Collection, from_grid, to_grid
from model.calibration.summary import error_curves
from model.embedder import Embedder
from model.quality import CHECKS
from model.types import Rate
from training.crops import crop_photos
from training.datasets.table import DatasetError
from training.faces import held_out

GROUP_PHOTOS = 500
KNOTS = 129
ADULT = 18
UTKFACE_RACES = ("White", "Black", "Asian", "Indian", "Other")
UTKFACE_AGES = ((0, 12), (13, 25), (26, 45), (46, 65), (66, 120))


@dataclass(frozen=True)
class SliceRates:
    """Error rates of some of the pairs at one threshold.

    Attributes:
        name: Which pairs.
        fmr: False-match rate, or None without stranger pairs.
        fnmr: False non-match rate, or None without same-person pairs.
    """

    name: str
    fmr: Rate | None
    fnmr: Rate | None


@dataclass(frozen=True)
class Strangers:
    """False matches between strangers, by group.

    Attributes:
        rates: By ``race``, ``gender`` (adults) and ``age``: each group and each two groups.
        cut_off: Share of the photos that the quality check would call cut off.
    """

    rates: dict[str, tuple[SliceRates, ...]]
    cut_off: float


def by_measure(
    vectors: np.ndarray,
    labels: np.ndarray,
    values: np.ndarray,
    edges: Sequence[float],
    threshold: float,
    *,
    meeting: np.ndarray | None = None,
    high_is_bad: bool = True,
) -> tuple[SliceRates, ...]:
    """Rates by bins of a measure; a pair belongs to the bin of its worse photo.

    Args:
        vectors: Unit vectors ``(N, D)``.
        labels: ``(N,)``, equal for photos of one person.
        values: The measure of each photo, ``(N,)``.
        edges: Bounds of the bins, ascending.
        threshold: Score from which on a pair counts as one person.
        meeting: Which photos meet strangers, ``(N,)``; without, all of them.
        high_is_bad: Which end of the measure is the worse.
    """
    classes = np.searchsorted(edges[1:-1], values, side="right")
    numbers = np.arange(len(edges) - 1)
    table = (np.maximum if high_is_bad else np.minimum).outer(numbers, numbers)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return _rates(vectors, labels, classes, table, names, threshold, meeting)


def strangers_by_group(
    root: Path, embedder: Embedder, threshold: float, *, spared: float = 1.0, cache: Path
) -> Strangers:
    """False-match rates inside and across UTKFace's groups at one threshold.

    UTKFace names no people; two photos count as two people. Where the same person was collected
    twice, that shows as a false match, so the rates err on the high side.

    Args:
        root: Photos named ``age_gender_race_date``.
        embedder: The model.
        threshold: Score from which on a pair counts as one person.
        spared: The share that training left out; only these faces are taken.
        cache: Folder for crops.
    """
    facts = utkface_facts(root, spared)
    ages, genders, races = np.array(list(facts.values())).T
    grown = ages >= ADULT
    bands = np.searchsorted([low for low, _ in UTKFACE_AGES], ages, side="right") - 1
    groups = {
        "race": (np.where(grown & (races < 5), races, -1), UTKFACE_RACES),
        "gender": (np.where(grown & (genders < 2), genders, -1), ("men", "women")),
        "age": (bands, tuple(f"{low} to {high} years" for low, high in UTKFACE_AGES)),
    }
    rates, cut_off = {}, []
    limit = next(check.limit for check in CHECKS if check.code == "cut_off")
    for name, (codes, members) in groups.items():
        drawn = _draw(codes, len(members))
        crops = crop_photos([list(facts)[row] for row in drawn], cache=cache)
        kept = np.flatnonzero(crops.found)
        vectors = embedder.embed(crops.pixels[kept])
        rates[name] = _across(vectors, codes[drawn[kept]], members, threshold)
        cut_off.append(crops.measures["outside"][kept] > limit)
    return Strangers(rates, float(np.concatenate(cut_off).mean()))


def false_match_rate(vectors: np.ndarray, threshold: float) -> Rate:
    """How often strangers reach a threshold; unit vectors ``(N, D)``, each of another person."""
    alone = np.zeros(len(vectors), int)
    (found,) = _rates(
        vectors, np.arange(len(vectors)), alone, np.zeros((1, 1), int), [""], threshold
    )
    assert found.fmr is not None
    return found.fmr


def utkface_facts(root: Path, spared: float = 1.0) -> dict[Path, list[int]]:
    """Age, gender and race of each photo, of the share that training left out."""
    facts = {
        path: [int(value) for value in parts[:3]]
        for path in sorted(root.rglob("*.jpg"))
        # A few files lack their gender or race; they belong to no group.
        if len(parts := path.name.split("_")) > 3
        and all(map(str.isdigit, parts[:3]))
        and held_out(f"{root.name}/{path.relative_to(root)}", spared)
    }
    if not facts:
        raise DatasetError(f"UTKFace: {root} holds no photos named age_gender_race_date.jpg.")
    return facts


def _draw(codes: np.ndarray, groups: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    members = [rng.permutation(np.flatnonzero(codes == code)) for code in range(groups)]
    return np.sort(np.concatenate([rows[:GROUP_PHOTOS] for rows in members]))


def _across(
    vectors: np.ndarray, codes: np.ndarray, names: Sequence[str], threshold: float
) -> tuple[SliceRates, ...]:
    """Rates inside each group and across each two; every photo counts as its own person."""
    first, second = np.triu_indices(len(names))
    table = np.zeros((len(names), len(names)), int)
    table[first, second] = table[second, first] = np.arange(len(first))
    labels = [
        names[one] if one == other else f"{names[one]} / {names[other]}"
        for one, other in zip(first, second, strict=True)
    ]
    return _rates(vectors, np.arange(len(vectors)), codes, table, labels, threshold)


def _rates(
    vectors: np.ndarray,
    labels: np.ndarray,
    classes: np.ndarray,
    table: np.ndarray,
    names: Sequence[str],
    threshold: float,
    meeting: np.ndarray | None = None,
) -> tuple[SliceRates, ...]:
    collection = Collection.of(vectors, labels, np.zeros(len(labels), np.int64), meeting)
    # Where errors are few, an interval rests on what the pairs are worth at lower scores.
    places = np.unique(to_grid(np.r_[np.linspace(-1, 1, KNOTS), threshold]))
    at = int(np.searchsorted(places, to_grid(np.array([threshold]))[0]))
    counts = count_people(collection, from_grid(places), classes[collection.order], table)
    slices = []
    for name, part in zip(names, counts, strict=True):
        curves = error_curves(part)
        slices.append(
            SliceRates(
                name,
                curves.fmr.at(at) if curves.fmr.trials else None,
                curves.fnmr.at(at) if curves.fnmr.trials else None,
            )
        )
    return tuple(slices)
