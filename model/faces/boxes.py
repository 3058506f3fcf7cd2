"""Operations on boxes ``(N, 4)`` (left, top, right, bottom): regress, square, suppress."""

from __future__ import annotations

import numpy as np

BLOCK = 64
"""Number of boxes that suppression compares with all others at once."""


def regress(boxes: np.ndarray, shifts: np.ndarray, plus: float) -> np.ndarray:
    """Move the sides of boxes ``(N, 4)`` by fractions ``(N, 4)`` of their width and height."""
    extent = np.tile(boxes[:, 2:4] - boxes[:, :2] + plus, 2)
    return boxes + shifts * extent


def square(boxes: np.ndarray) -> np.ndarray:
    """Extend boxes ``(N, 4)`` to squares with the same centre and the longer side."""
    centre = (boxes[:, :2] + boxes[:, 2:4]) / 2
    half = (boxes[:, 2:4] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.column_stack([centre - half, centre + half])


def suppress(
    boxes: np.ndarray, scores: np.ndarray, overlap: float, *, by_smaller: bool = False
) -> np.ndarray:
    """Non-maximum suppression: return the rows to keep, highest score first.

    Args:
        boxes: ``(N, 4)``.
        scores: ``(N,)``.
        overlap: Drop a box whose overlap with a better one exceeds this, in ``[0, 1]``.
        by_smaller: Measure overlap as a fraction of the smaller box instead of the union.
    """
    rest, kept = np.argsort(-scores, kind="stable"), []
    while len(rest):
        best, others = boxes[rest[:BLOCK], None], boxes[None, rest]
        sides = np.minimum(best[..., 2:], others[..., 2:]) - np.maximum(
            best[..., :2], others[..., :2]
        )
        common = sides.clip(0).prod(axis=2)
        areas = [(each[..., 2:] - each[..., :2]).prod(axis=2) for each in (best, others)]
        whole = np.minimum(*areas) if by_smaller else areas[0] + areas[1] - common
        apart = common <= overlap * whole
        alive = np.ones(len(rest), bool)
        for row in range(len(best)):
            if alive[row]:
                kept.append(rest[row])
                alive[row + 1 :] &= apart[row, row + 1 :]
        rest = rest[BLOCK:][alive[BLOCK:]]
    return np.array(kept, np.int64)
