"""Place labels beside boxes in a picture: no label covers another one or leaves the picture."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

TEXT, PADDING = 0.8, 0.28
"""Font size of a label and the space on either side of its text, as fractions of its height."""

COVERING_ANOTHER, COVERING_OWN = 8.0, 3.0
"""Costs of a place: fraction of the label over other boxes, and of its own box under the label."""

LARGEST_COST = 0.6
"""A longer text is used only at a place that costs no more; a number is always placed."""

SHRINKING = 0.85
"""Labels become smaller by this factor until every number has a place."""

GAP, TOUCHING = 0.1, 0.3
"""Space between two labels, and wanted to another box, as fractions of a label's height."""

Area = tuple[float, float, float, float]
"""Left, top, right and bottom edges, in pixels of the picture."""


@dataclass(frozen=True)
class Label:
    """A label's text and place; an empty text if there is no room for it."""

    text: str
    area: Area


@dataclass(frozen=True)
class Labels:
    """The labels of a picture, in the order of its boxes.

    Attributes:
        height: Height of every label, in pixels of the picture.
        labels: One label per box.
    """

    height: float
    labels: tuple[Label, ...]


def arrange(
    boxes: Sequence[Area], texts: Sequence[Sequence[str]], width: int, height: int, tall: float
) -> Labels:
    """Place one label per box.

    Args:
        boxes: The boxes, within the picture.
        texts: Per box, the texts that may be on its label, longest first. The last is placed in
            any case, beside another box if need be; if it is empty, the label may be left out.
        width: Width of the picture.
        height: Height of the picture.
        tall: Height of a label; smaller where the picture is too full.
    """
    widest = max((_wide(each[-1], 1) for each in texts), default=1)
    tall = min(tall, height, width / widest)
    while True:
        page = _Page(np.array(boxes, float).reshape(-1, 4), width, height, tall)
        if page.place_shortest([each[-1] for each in texts]):
            for place, longer in enumerate(texts):
                page.lengthen(place, longer[:-1])
            return Labels(tall, tuple(page.labels))
        tall *= SHRINKING


class _Page:
    """A picture on which labels of one height are placed, one after another."""

    def __init__(self, boxes: np.ndarray, width: int, height: int, tall: float) -> None:
        self.boxes, self.width, self.height, self.tall = boxes, width, height, tall
        self.labels = [Label("", (0.0, 0.0, 0.0, 0.0)) for _ in boxes]

    def place_shortest(self, texts: Iterable[str]) -> bool:
        """Place every label's shortest text; False if one has no place."""
        for place, text in enumerate(texts):
            if not text:
                continue
            wide = _wide(text, self.tall)
            found = self._best(place, self._beside(place, wide), wide)
            if found is None:
                found = self._best(place, self._everywhere(wide), wide)
            if found is None:
                return False
            self.labels[place] = Label(text, found[0])
        return True

    def lengthen(self, place: int, texts: Sequence[str]) -> None:
        """Use the longest of the texts that has a good place."""
        for text in texts:
            wide = _wide(text, self.tall)
            if wide > self.width:
                continue
            found = self._best(place, self._beside(place, wide), wide)
            if found and found[1] <= LARGEST_COST:
                self.labels[place] = Label(text, found[0])
                return

    def _best(self, place: int, corners: np.ndarray, wide: float) -> tuple[Area, float] | None:
        """Return the cheapest free place and its cost; the first of several, None without any."""
        spots = np.hstack([corners, corners + np.array([wide, self.tall])])
        others = [each.area for n, each in enumerate(self.labels) if n != place and each.text]
        gap = GAP * self.tall * np.array([-1, -1, 1, 1])
        free = ~(_overlap(spots, np.array(others).reshape(-1, 4) + gap) > 0).any(axis=1)
        if not free.any():
            return None
        spots = spots[free]
        own = self.boxes[place]
        mine = _overlap(spots, self.boxes[place : place + 1])[:, 0]
        # A label that touches another box would be taken for that box's.
        covered = _overlap(spots, self.boxes + TOUCHING * self.tall * np.array([-1, -1, 1, 1]))
        covered[:, place] = 0
        away = np.maximum(0, np.maximum(own[:2] - spots[:, 2:], spots[:, :2] - own[2:])).sum(axis=1)
        cost = (
            COVERING_ANOTHER * covered.sum(axis=1) / (wide * self.tall)
            + COVERING_OWN * mine / max(_size(own), 1.0)
            + away / self.tall
        )
        cheapest = int(np.argmin(cost.round(3)))
        left, top, right, bottom = spots[cheapest].tolist()
        return (left, top, right, bottom), float(cost[cheapest])

    def _beside(self, place: int, wide: float) -> np.ndarray:
        """Return corners of labels at the edges of a box, best first: above, below, within."""
        left, top, right, bottom = self.boxes[place]
        across = (left, right - wide, (left + right - wide) / 2, left - wide, right)
        down = (top - self.tall, bottom, top, bottom - self.tall, (top + bottom - self.tall) / 2)
        return self._within([(x, y) for y in down for x in across], wide)

    def _everywhere(self, wide: float) -> np.ndarray:
        across = np.arange(0, self.width, wide / 2)
        down = np.arange(0, self.height, self.tall / 2)
        return self._within([(x, y) for y in down for x in across], wide)

    def _within(self, corners: Sequence[tuple[float, float]], wide: float) -> np.ndarray:
        return np.clip(np.array(corners), 0, (self.width - wide, self.height - self.tall))


def _overlap(some: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Return the common area of every pair of areas, ``(len(some), len(others))``."""
    starts = np.maximum(some[:, None, :2], others[None, :, :2])
    ends = np.minimum(some[:, None, 2:], others[None, :, 2:])
    return np.clip(ends - starts, 0, None).prod(axis=2)


def _size(area: np.ndarray) -> float:
    return float((area[2] - area[0]) * (area[3] - area[1]))


def _wide(text: str, tall: float) -> float:
    """Estimate the width of a label; the SVG fits bold text to it exactly."""
    letters = sum(
        0.34 if each in " iljtfrI.,:;'|()[]!" else
        0.95 if each in "mwMW@%…" or unicodedata.east_asian_width(each) in "WF" else
        0.72 if each.isupper() else 0.62
        for each in text
    )  # fmt: skip
    return tall * (2 * PADDING + TEXT * letters)
