"""Fit the parts of a calibration: halves, knots, curves, quality and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from model.calibration.intervals import RateCurve, independent_curve
from model.calibration.kinds import WHOLE, Copies, by_kind
from model.calibration.likelihood import fit_likelihood, provable_ratios, reliability
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Progress, Sample, histograms
from model.calibration.pairs.subgroups import by_group, by_quality
from model.calibration.rates import Rates
from model.calibration.summary import bootstrap, bootstrap_pairs, error_curves, summarise
from model.calibration.tail import fit_tail
from model.calibration.types import TARGETS, ErrorCurves, Histograms, Parts, significant
from model.errors import CalibrationError

MIN_PEOPLE = 8
STRANGER_PHOTOS = 3
KNOTS_PER_DECADE = 24


def check_photos(
    embeddings: np.ndarray,
    labels: np.ndarray,
    quality: np.ndarray | None,
    groups: Sequence[str] | None,
) -> None:
    """Raise `ValueError` unless all arguments have one entry per unit vector."""
    if embeddings.ndim != 2 or labels.shape != (len(embeddings),):
        raise ValueError(
            f"embeddings must be (N, D) with N labels; got {embeddings.shape}, {labels.shape}"
        )
    lengths = np.linalg.norm(embeddings, axis=1)
    if not np.allclose(lengths, 1, atol=1e-3):
        raise ValueError("embeddings must be unit vectors; divide them by their length")
    for name, column in (("quality", quality), ("groups", groups)):
        if column is not None and len(column) != len(labels):
            raise ValueError(f"{name} has {len(column)} entries for {len(labels)} photos")


def check_scores(genuine: np.ndarray, impostor: np.ndarray) -> None:
    """Raise `ValueError` unless both are 1D with at least 4 finite scores."""
    for name, scores in (("genuine", genuine), ("impostor", impostor)):
        if np.ndim(scores) != 1 or len(scores) < 4 or not np.isfinite(scores).all():
            raise ValueError(f"{name} scores must be one row of at least 4 finite numbers")


def fit_embeddings(
    embeddings: np.ndarray,
    labels: np.ndarray,
    quality: np.ndarray | None,
    groups: Sequence[str] | None,
    seed: int,
    progress: Progress | None,
    meeting: np.ndarray | None = None,
    copies: Copies | None = None,
) -> Parts:
    """Fit labelled embeddings; see `Calibration.fit` and `Collection`."""
    half = split_people(labels, seed)
    collection = Collection.of(embeddings, labels, half, meeting)
    passes = 2 + (quality is not None) + (groups is not None)
    report = _staged(progress, passes)

    halves = histograms(collection, report(0))
    for sample, name in zip(halves[:2], ("first", "second"), strict=True):
        if sample.genuine.sum() == 0 or sample.impostor.sum() == 0:
            raise CalibrationError(
                f"The {name} half of the people has no pair of photos of one person, or of two "
                "people. Give at least two photos each for a dozen people or more."
            )
    everyone = halves[0] + halves[1] + halves[2]
    knots = choose_knots(everyone, halves[0])
    within = np.array([[0, 2], [2, 1]])
    counts = count_people(collection, knots, collection.half[collection.person], within, report(1))
    together = counts[0] + counts[1] + counts[2]
    curves = [error_curves(part) for part in (counts[0], counts[1], together)]
    genuine_pairs = together.genuine.sum(axis=1)
    parts = _assemble(knots, curves, halves, everyone)
    summary = bootstrap(together, knots, parts.summary, seed)
    parts = replace(
        parts,
        summary=summary,
        people=collection.people,
        genuine_people=int((genuine_pairs > 0).sum()),
        largest_share=float(genuine_pairs.max() / genuine_pairs.sum()),
    )
    if quality is not None:
        if copies is None:
            bins = by_quality(collection, knots, quality, report(2))
            parts = replace(parts, quality=bins)
        else:
            joined, qualities, kinds = _with_copies(
                embeddings, labels, quality, half, meeting, copies
            )
            bins = by_quality(joined, knots, qualities, report(2), copies=True)
            parts = replace(parts, quality=bins)
            order = joined.order
            found = by_kind(joined, qualities[order], kinds[order], Rates(parts))
            parts = replace(parts, kinds=found)
    if groups is not None:
        marks = [target for target in Rates(parts).targets if not target.extrapolated]
        rates = by_group(collection, np.asarray(groups), marks, report(passes - 1))
        parts = replace(parts, groups=rates)
    return parts


def _with_copies(
    embeddings: np.ndarray,
    labels: np.ndarray,
    quality: np.ndarray,
    half: np.ndarray,
    meeting: np.ndarray | None,
    copies: Copies,
) -> tuple[Collection, np.ndarray, np.ndarray]:
    """Join photos and their copies in one collection, with the quality and kind of each."""
    of = np.r_[np.arange(len(labels)), copies.of]
    joined = Collection.of(
        np.concatenate([embeddings, copies.embeddings]),
        np.asarray(labels)[of],
        half[of],
        None if meeting is None else meeting[of],
        of,
    )
    kinds = np.concatenate([np.full(len(labels), WHOLE, dtype=object), copies.kinds])
    return joined, np.concatenate([quality, copies.quality]), kinds


def fit_scores(genuine: np.ndarray, impostor: np.ndarray, seed: int) -> Parts:
    """Fit plain scores of unknown people; see `Calibration.from_scores`."""
    rng = np.random.default_rng(seed)
    sides = []
    for scores in (genuine, impostor):
        shuffled = rng.permutation(np.asarray(scores, float))
        sides.append((shuffled[::2], shuffled[1::2]))
    halves = [Sample.of(sides[0][at], sides[1][at]) for at in (0, 1)]
    everyone = halves[0] + halves[1]
    knots = choose_knots(everyone, halves[0])
    curves = [_independent(part, knots) for part in (*halves, everyone)]
    parts = _assemble(knots, curves, halves, everyone)
    return replace(parts, summary=bootstrap_pairs(everyone, knots, parts.summary, seed))


def draw_photos(
    labels: np.ndarray, max_photos: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Choose the photos to measure on, so that no person dominates the rates.

    Same-person pairs grow with the square of a person's photos: one man has 58% of them in LFW.
    Impostor pairs of two people grow with the product: two brothers with ten photos each count a
    hundred times, and their family resemblance would raise the false-match rate.

    Args:
        labels: ``(N,)``, equal for photos of one person.
        max_photos: Most photos per person; None for all photos and all pairs.
        seed: Seed of the choice.

    Returns:
        The chosen rows, ascending, and a mask of those also used in impostor pairs, at most
        `STRANGER_PHOTOS` per person.
    """
    if max_photos is None:
        return np.arange(len(labels)), np.ones(len(labels), bool)
    if max_photos < 2:
        raise ValueError(f"max_photos is {max_photos}; it takes 2 photos to make a pair")
    ranks = _ranks(labels, seed)
    rows = np.flatnonzero(ranks < max_photos)
    return rows, ranks[rows] < STRANGER_PHOTOS


def _ranks(labels: np.ndarray, seed: int) -> np.ndarray:
    """Rank each photo from 0 among its person's photos, in random order."""
    shuffled = np.random.default_rng(seed).permutation(len(labels))
    order = shuffled[np.argsort(labels[shuffled], kind="stable")]
    ranked = labels[order]
    starts = np.flatnonzero(np.r_[True, ranked[1:] != ranked[:-1]])
    sizes = np.diff(np.r_[starts, len(ranked)])
    ranks = np.empty(len(ranked), np.int64)
    ranks[order] = np.arange(len(ranked)) - np.repeat(starts, sizes)
    return ranks


def split_people(labels: np.ndarray, seed: int) -> np.ndarray:
    """Split people into two halves with about as many photos each.

    Returns:
        int ``(N,)`` of 0 or 1: the half of each photo's person.

    Raises:
        CalibrationError: There are fewer than `MIN_PEOPLE` people.
    """
    people, place, counts = np.unique(labels, return_inverse=True, return_counts=True)
    if len(people) < MIN_PEOPLE:
        raise CalibrationError(
            f"{len(people)} people are too few to calibrate on; it takes {MIN_PEOPLE} to fill two "
            "halves at all, and thousands to measure a false-match rate of 1 in 100,000."
        )
    rng = np.random.default_rng(seed)
    ranked = np.lexsort([rng.random(len(people)), -counts])
    half = np.empty(len(people), int)
    for start in range(0, len(people), 2):
        couple = ranked[start : start + 2]
        half[couple] = rng.permutation(2)[: len(couple)]
    return half[place]


def choose_knots(everyone: Sample, first_half: Sample) -> np.ndarray:
    """Choose the scores at which rates are stored: dense at small rates, exact at each target."""
    matches, misses = everyone.false_matches, everyone.false_non_matches
    picks = [np.array([0])]
    for errors, side in ((matches[::-1], -1), (misses, 1)):
        total = max(int(errors[-1]), 1)
        levels = np.unique(
            np.rint(np.logspace(0, np.log10(total), int(np.log10(total) * KNOTS_PER_DECADE) + 2))
        )
        at = np.minimum(np.searchsorted(errors, levels), len(errors) - 1)
        picks.append(at if side == 1 else len(errors) - 1 - at)
    span = np.linspace(everyone.values[0], everyone.values[-1], 128)
    picks.append(np.searchsorted(everyone.values, span).clip(0, len(everyone.values) - 1))
    fmr = first_half.false_matches / first_half.impostor.sum()
    reached = [first_half.values[fmr <= target][:1] for target in TARGETS]
    above = everyone.values[-1] + max(np.spacing(abs(everyone.values[-1])), 1 / 2**20)
    return np.unique(np.r_[everyone.values[np.concatenate(picks)], *reached, above])


def _assemble(
    knots: np.ndarray,
    curves: list[ErrorCurves],
    halves: list[Sample],
    everyone: Sample,
) -> Parts:
    bounds = provable_ratios(curves[2].fmr, curves[2].fnmr)
    ratio = fit_likelihood(halves[0], halves[1], bounds, knots)
    edges = np.linspace(everyone.values[0], knots[-1], 121)
    drawn = [
        np.histogram(everyone.values, edges, weights=n)[0].astype(int).tolist()
        for n in (everyone.genuine, everyone.impostor)
    ]
    return Parts(
        scores=knots,
        fit=curves[0],
        held_out=curves[1],
        everyone=curves[2],
        summary=summarise(everyone),
        likelihood=ratio,
        reliability=tuple(reliability(ratio, halves[1])),
        tail=fit_tail(halves[0]),
        histograms=Histograms(tuple(significant(edges, 7)), *(tuple(n) for n in drawn)),
        people=0,
        genuine_people=0,
        largest_share=0.0,
    )


def _independent(sample: Sample, knots: np.ndarray) -> ErrorCurves:
    def curve(counts: np.ndarray, above: bool) -> RateCurve:
        total = np.r_[0, counts.cumsum()]
        below = total[np.searchsorted(sample.values, knots)]
        return independent_curve(total[-1] - below if above else below, int(total[-1]))

    return ErrorCurves(curve(sample.impostor, True), curve(sample.genuine, False))


def _staged(progress: Progress | None, passes: int) -> Callable[[int], Progress | None]:
    """Make one progress callback per pass over the pairs; all report to the caller's."""

    def stage(number: int) -> Progress | None:
        if progress is None:
            return None
        return lambda done, total: progress(number * total + done, passes * total)

    return stage
