"""Inline SVG plots of the two score distributions, without a plotting library.

Colours come from the page's style sheet, so one plot serves the light and the dark theme. Shapes
and text convey everything the colours do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from markupsafe import Markup

WIDTH, HEIGHT = 520, 236
LEFT, RIGHT = 14, WIDTH - 14
TOP, FLOOR = 48, 168


@dataclass(frozen=True, eq=False)
class Curves:
    """The score distributions of a calibration.

    Attributes:
        scores: ``(K,)`` ascending centres of the score bins.
        genuine: ``(K,)`` density of same-person pairs there.
        impostor: ``(K,)`` density of stranger pairs there.
        d_prime: Distance between the two means, in pooled standard deviations.
    """

    scores: np.ndarray
    genuine: np.ndarray
    impostor: np.ndarray
    genuine_mean: float
    impostor_mean: float
    d_prime: float


def distributions(
    curves: Curves,
    *,
    score: float | None = None,
    threshold: float | None = None,
    reject_below: float | None = None,
    title: str = "How alike pairs of photos look",
) -> Markup:
    """Draw the distributions, with the given marks.

    Args:
        score: Score of the pair to mark.
        threshold: Lowest score of a pair that counts as the same person.
        reject_below: Score below which a pair counts as different people.
        title: The plot's accessible name.
    """
    marks = [mark for mark in (score, threshold, reject_below) if mark is not None]
    low, high = _range(curves, marks)
    top = max(float(curves.genuine.max()), float(curves.impostor.max()), 1e-9)

    def across(value: float) -> float:
        share = (min(max(value, low), high) - low) / (high - low)
        return LEFT + share * (RIGHT - LEFT)

    parts = [_ticks(low, high, across)]
    for kind in ("impostor", "genuine"):
        densities = getattr(curves, kind)
        points = " ".join(
            f"{across(at):.1f},{FLOOR - density / top * (FLOOR - TOP):.1f}"
            for at, density in zip(curves.scores, densities, strict=True)
            if low <= at <= high
        )
        parts.append(
            f'<polygon class="fv-area fv-{kind}" points="{across(low):.1f},{FLOOR} {points} '
            f'{across(high):.1f},{FLOOR}"/><polyline class="fv-line fv-{kind}" points="{points}"/>'
        )
    if threshold is not None:
        reject = threshold if reject_below is None else reject_below
        parts.append(_zones(across(low), across(reject), across(threshold), across(high)))
        # Put the label on the side away from the pair's own mark.
        side = "end" if score is not None and score >= threshold else "start"
        words = f"threshold {threshold:.2f}"
        parts.append(_mark(across(threshold), "fv-threshold", 34, words, side))
    parts.append(_d_prime(curves, across))
    if score is not None:
        place = (across(score) - LEFT) / (RIGHT - LEFT)
        side = "start" if place < 0.2 else "end" if place > 0.8 else "middle"
        parts.append(_mark(across(score), "fv-score", 15, f"this pair {score:.2f}", side))
        parts.append(f'<circle class="fv-score-dot" cx="{across(score):.1f}" cy="{FLOOR}" r="5"/>')
    return Markup(
        f'<svg class="fv-plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{_describe(curves, title, score, threshold)}">{"".join(parts)}</svg>'
    )


LEGEND = Markup(
    '<p class="fv-legend" aria-hidden="true">'
    '<span><i class="fv-swatch fv-impostor"></i>pairs of strangers</span>'
    '<span><i class="fv-swatch fv-genuine"></i>pairs of one person</span></p>'
)


def _range(curves: Curves, marks: list[float]) -> tuple[float, float]:
    """Return the score range to show: where either curve has weight, plus every mark."""
    used = np.flatnonzero(
        np.maximum(curves.genuine / max(curves.genuine.max(), 1e-9),
                   curves.impostor / max(curves.impostor.max(), 1e-9)) > 0.004
    )  # fmt: skip
    ends = [float(curves.scores[used[0]]), float(curves.scores[used[-1]]), *marks]
    return max(-1.0, min(ends) - 0.04), min(1.02, max(ends) + 0.04)


def _ticks(low: float, high: float, across: Callable[[float], float]) -> str:
    parts = [f'<line class="fv-axis" x1="{LEFT}" x2="{RIGHT}" y1="{FLOOR}" y2="{FLOOR}"/>']
    for tick in np.arange(-1, 1.001, 0.2):
        if low <= tick <= high:
            parts.append(
                f'<text class="fv-tick" x="{across(tick):.1f}" y="{FLOOR + 27}" '
                f'text-anchor="middle">{round(float(tick), 1) + 0.0:.1f}</text>'
            )
    return "".join(parts)


def _zones(low: float, reject: float, threshold: float, high: float) -> str:
    spans = (("different", low, reject), ("inconclusive", reject, threshold),
             ("same", threshold, high))  # fmt: skip
    return "".join(
        f'<rect class="fv-zone fv-{name}" x="{start:.1f}" y="{FLOOR + 4}" '
        f'width="{max(0.0, stop - start):.1f}" height="8"/>'
        for name, start, stop in spans
    )


def _mark(at: float, kind: str, row: int, label: str, anchor: str) -> str:
    shift = {"start": 5, "middle": 0, "end": -5}[anchor] if row > 20 else 0
    return (
        f'<line class="fv-mark {kind}" x1="{at:.1f}" x2="{at:.1f}" y1="{row + 5}" '
        f'y2="{FLOOR + 12}"/><text class="fv-mark-label {kind}" x="{at + shift:.1f}" y="{row}" '
        f'text-anchor="{anchor}">{label}</text>'
    )


def _d_prime(curves: Curves, across: Callable[[float], float]) -> str:
    left, right = sorted((across(curves.impostor_mean), across(curves.genuine_mean)))
    y = FLOOR + 50
    label = f"d′ = {curves.d_prime:.2f}"
    middle = (left + right) / 2
    return (
        f'<path class="fv-bracket" d="M{left:.1f} {y - 6}v12M{right:.1f} {y - 6}v12'
        f'M{left:.1f} {y}H{middle - 44:.1f}M{middle + 44:.1f} {y}H{right:.1f}"/>'
        f'<text class="fv-dprime" x="{middle:.1f}" y="{y + 5}" text-anchor="middle">{label}</text>'
    )


def _describe(curves: Curves, title: str, score: float | None, threshold: float | None) -> str:
    words = [
        f"{title}. Pairs of strangers score {curves.impostor_mean:.2f} on average, pairs of one "
        f"person {curves.genuine_mean:.2f}; d-prime is {curves.d_prime:.2f}."
    ]
    if threshold is not None:
        words.append(f"The threshold is {threshold:.2f}.")
    if score is not None:
        words.append(f"This pair scores {score:.2f}.")
    return " ".join(words)
