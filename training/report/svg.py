"""Small plots as inline SVG that follow the page's colours, for reports in one file."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from html import escape

WIDTH, HEIGHT = 420, 290
LEFT, RIGHT, TOP, BOTTOM = 54, 12, 12, 44


class Plot:
    """One pair of axes.

    Args:
        title: What is shown, for those who cannot see it.
        x, y: Ranges of the axes, positive on logarithmic ones.
        x_label, y_label: What the axes measure.
        x_log, y_log: Whether they are logarithmic.
    """

    def __init__(
        self,
        title: str,
        x: tuple[float, float],
        y: tuple[float, float],
        x_label: str,
        y_label: str,
        *,
        x_log: bool = False,
        y_log: bool = False,
    ) -> None:
        self.title = title
        self.ranges = x, y
        self.logs = x_log, y_log
        self.shapes: list[str] = []
        self.notes: list[str] = []
        self._axes(x_label, y_label)

    def line(self, xs: Iterable[float], ys: Iterable[float], style: str) -> None:
        """A line through points; points that are not finite are left out."""
        points = " ".join(
            f"{self._x(x):.1f},{self._y(y):.1f}"
            for x, y in zip(xs, ys, strict=True)
            if math.isfinite(x) and math.isfinite(y)
        )
        self.shapes.append(f'<polyline class="line {style}" points="{points}"/>')

    def band(
        self, xs: Sequence[float], low: Sequence[float], high: Sequence[float], style: str
    ) -> None:
        """The area between two curves."""
        upper = [f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in zip(xs, high, strict=True)]
        lower = [f"{self._x(x):.1f},{self._y(y):.1f}" for x, y in zip(xs, low, strict=True)]
        points = " ".join(upper + lower[::-1])
        self.shapes.append(f'<polygon class="band {style}" points="{points}"/>')

    def steps(self, edges: Sequence[float], heights: Sequence[float], style: str) -> None:
        """A histogram's outline, filled to the bottom."""
        base = self._y(self.ranges[1][0])
        points = [f"{self._x(edges[0]):.1f},{base:.1f}"]
        for at, height in enumerate(heights):
            y = self._y(height)
            points += [f"{self._x(edges[at]):.1f},{y:.1f}", f"{self._x(edges[at + 1]):.1f},{y:.1f}"]
        points.append(f"{self._x(edges[-1]):.1f},{base:.1f}")
        self.shapes.append(f'<polygon class="fill {style}" points="{" ".join(points)}"/>')

    def mark(self, x: float, label: str, style: str = "", row: int = 0) -> None:
        """A vertical line with a label at its top; ``row`` moves the label down."""
        at = self._x(x)
        anchor = "end" if at > WIDTH * 0.8 else "start"
        shift = -4 if anchor == "end" else 4
        self.shapes.append(
            f'<line class="mark {style}" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" '
            f'y2="{HEIGHT - BOTTOM}"/>'
        )
        self.notes.append(
            f'<text class="note" text-anchor="{anchor}" x="{at + shift:.1f}" '
            f'y="{TOP + 11 + 13 * row}">{escape(label)}</text>'
        )

    def dot(self, x: float, y: float, style: str, label: str = "") -> None:
        place = f'cx="{self._x(x):.1f}" cy="{self._y(y):.1f}"'
        self.shapes.append(
            f'<circle class="dot {style}" {place} r="4"><title>{escape(label)}</title></circle>'
        )

    def render(self) -> str:
        """The plot as an ``<svg>`` element."""
        return (
            f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(self.title)}">'
            f"{''.join(self.shapes + self.notes)}</svg>"
        )

    def _x(self, value: float) -> float:
        return LEFT + self._share(0, value) * (WIDTH - LEFT - RIGHT)

    def _y(self, value: float) -> float:
        return HEIGHT - BOTTOM - self._share(1, value) * (HEIGHT - TOP - BOTTOM)

    def _share(self, axis: int, value: float) -> float:
        low, high = self.ranges[axis]
        if self.logs[axis]:
            value, low, high = (math.log10(max(v, 1e-300)) for v in (value, low, high))
        return min(max((value - low) / (high - low), 0.0), 1.0)

    def _axes(self, x_label: str, y_label: str) -> None:
        floor, wall = HEIGHT - BOTTOM, WIDTH - RIGHT
        for value in _ticks(self.ranges[0], self.logs[0]):
            at = self._x(value)
            self.shapes.append(
                f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{floor}"/>'
                f'<text class="tick" text-anchor="middle" x="{at:.1f}" y="{floor + 16}">'
                f"{_name(value, self.logs[0])}</text>"
            )
        for value in _ticks(self.ranges[1], self.logs[1]):
            at = self._y(value)
            self.shapes.append(
                f'<line class="grid" x1="{LEFT}" x2="{wall}" y1="{at:.1f}" y2="{at:.1f}"/>'
                f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{at + 4:.1f}">'
                f"{_name(value, self.logs[1])}</text>"
            )
        middle = (LEFT + wall) / 2
        self.shapes.append(
            f'<text class="axis" text-anchor="middle" x="{middle}" y="{HEIGHT - 8}">'
            f'{escape(x_label)}</text><text class="axis" text-anchor="middle" '
            f'transform="translate(13 {(TOP + floor) / 2}) rotate(-90)">{escape(y_label)}</text>'
        )


def _ticks(span: tuple[float, float], log: bool) -> list[float]:
    low, high = span
    if log:
        first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
        step = max(1, math.ceil((last - first) / 6))
        return [10.0**power for power in range(first, last + 1, step)]
    rough = (high - low) / 5
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * size for size in (1, 2, 5, 10) if unit * size >= rough)
    first = math.ceil(low / step - 1e-9)
    count = math.floor((high - first * step) / step + 1e-9)
    return [(first + at) * step for at in range(count + 1)]


def _name(value: float, log: bool) -> str:
    if log:
        power = round(math.log10(value))
        if -3 < power < 3:
            return f"{value:g}"
        digits = str(power).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        return f"10{digits}"
    return f"{value:.10g}" if abs(value) > 1e-9 else "0"
