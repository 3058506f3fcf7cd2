"""Fit the parts of a calibration: halves, knots, curves, quality and groups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from model.calibration.intervals import RateCurve, independent_curve, significant
from model.calibration.kinds import WHOLE, Copies, by_kind
from model.calibration.likelihood import fit_likelihood, provable_ratios, reliability
from model.calibration.pairs.further import WITHIN_HALVES, Further
from model.calibration.pairs.people import split_people
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Progress, Sample, histograms
from model.calibration.pairs.subgroups import by_group, by_quality
from model.calibration.rates import Rates
from model.calibration.summary import bootstrap, bootstrap_pairs, error_curves, summarise
from model.calibration.tail import fit_tail
from model.calibration.types import (
    TARGETS,
    ErrorCurves,
    Histograms,
    Parts,
)
from model.errors import CalibrationError

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
    further: Sequence[Further] = (),
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
    halves_of = collection.half[collection.person]
    counts = count_people(collection, knots, halves_of, WITHIN_HALVES, report(1))
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
        further=tuple(each.rates(knots, seed) for each in further),
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
