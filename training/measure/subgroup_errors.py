"""Error rates by quality measure and by group of people."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np

from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, from_grid, to_grid
from model.calibration.summary import error_curves
from model.embedding.embedder import Embedder
from model.faces.image import SUFFIXES
from model.faces.quality import CHECKS
from model.types import Rate
from training.datasets.face_set import held_out
from training.datasets.table import DatasetError, by_folder
from training.inputs.crops import crop_photos

GROUP_PHOTOS = 500
KNOTS = 129
ADULT = 18
UTKFACE_RACES = ("White", "Black", "Asian", "Indian", "Other")
UTKFACE_AGES = ((0, 12), (13, 25), (26, 45), (46, 65), (66, 120))


@dataclass(frozen=True)
class SliceRates:
    """Error rates of a subset of pairs at one threshold.

    Attributes:
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
        rates: By attribute, such as ``race``: rates within each group and across two groups.
        cut_off: Share of the photos that the quality check calls cut off.
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
        edges: Bin edges, ascending.
        threshold: Lowest score of a match.
        meeting: Photos to compare with strangers, ``(N,)``; all if None.
        high_is_bad: True if high values of the measure are worse.
    """
    classes = np.searchsorted(edges[1:-1], values, side="right")
    numbers = np.arange(len(edges) - 1)
    table = (np.maximum if high_is_bad else np.minimum).outer(numbers, numbers)
    names = [f"{low:g} to {high:g}" for low, high in pairwise(edges)]
    return _rates(vectors, labels, classes, table, names, threshold, meeting)


def strangers_by_group(
    root: Path, embedder: Embedder, threshold: float, *, spared: float = 1.0, cache: Path
) -> Strangers:
    """False-match rates within and across UTKFace's groups at one threshold.

    UTKFace has no identities, so every photo counts as a different person. Two photos of the same
    person count as a false match, so the rates are upper estimates.

    Args:
        root: Photos named ``age_gender_race_date``.
        threshold: Lowest score of a match.
        spared: Share of faces that training left out; only these are used.
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
    for name, (codes, members) in groups.items():
        rates[name], cut = _drawn_rates(list(facts), codes, members, embedder, threshold, cache)
        cut_off.append(cut)
    return Strangers(rates, float(np.concatenate(cut_off).mean()))


def strangers_by_folder(
    root: Path, embedder: Embedder, threshold: float, *, cache: Path
) -> Strangers:
    """False-match rates within groups, one folder per group.

    Args:
        root: Parent of the folders; each photo counts as a different person.
        threshold: Lowest score of a match.
    """
    paths, labels, names = by_folder(root, SUFFIXES)
    if not paths:
        raise DatasetError(f"{root} holds no folders with photos, one for each group.")
    rates, cut_off = _drawn_rates(paths, np.array(labels), names, embedder, threshold, cache)
    inside = tuple(rate for rate in rates if rate.name in names)
    return Strangers({"group": inside}, float(cut_off.mean()))


def false_match_rate(vectors: np.ndarray, threshold: float) -> Rate:
    """FMR at a threshold; unit vectors ``(N, D)``, each of a different person."""
    (found,) = _across(vectors, np.zeros(len(vectors), int), ("all",), threshold)
    assert found.fmr is not None
    return found.fmr


def utkface_facts(root: Path, spared: float = 1.0) -> dict[Path, list[int]]:
    """Age, gender and race of each photo in the share that training left out."""
    root = Path(os.path.abspath(root))
    facts = {
        path: [int(value) for value in parts[:3]]
        for path in sorted(root.rglob("*.jpg"))
        # A few file names lack gender or race; skip them.
        if len(parts := path.name.split("_")) > 3
        and all(map(str.isdigit, parts[:3]))
        and held_out(f"{root.name}/{path.relative_to(root)}", spared)
    }
    if not facts:
        raise DatasetError(f"UTKFace: {root} holds no photos named age_gender_race_date.jpg.")
    return facts


def _drawn_rates(
    paths: Sequence[Path],
    codes: np.ndarray,
    names: Sequence[str],
    embedder: Embedder,
    threshold: float,
    cache: Path,
) -> tuple[tuple[SliceRates, ...], np.ndarray]:
    """Rates on a random sample of each group, and whether each photo is cut off."""
    drawn = _draw(codes, len(names))
    crops = crop_photos([paths[row] for row in drawn], cache=cache)
    kept = np.flatnonzero(crops.found)
    if not len(kept):
        raise DatasetError(f"No face was found in {len(drawn)} photos such as {paths[0]}.")
    vectors = embedder.embed(crops.pixels[kept])
    limit = next(check.limit for check in CHECKS if check.code == "cut_off")
    rates = _across(vectors, codes[drawn[kept]], names, threshold)
    return rates, crops.measures["outside"][kept] > limit


def _draw(codes: np.ndarray, groups: int) -> np.ndarray:
    rng = np.random.default_rng(0)
    members = [rng.permutation(np.flatnonzero(codes == code)) for code in range(groups)]
    return np.sort(np.concatenate([rows[:GROUP_PHOTOS] for rows in members]))


def _across(
    vectors: np.ndarray, codes: np.ndarray, names: Sequence[str], threshold: float
) -> tuple[SliceRates, ...]:
    """Rates within each group and across two groups; every photo counts as a different person."""
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
    # If errors are few, the interval uses the effective number of pairs at lower scores.
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
