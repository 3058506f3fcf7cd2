"""Boxes ``(N, 4)`` of left, top, right, bottom: moved, squared, and the best among neighbours."""

from __future__ import annotations

import numpy as np

BLOCK = 64
"""Boxes that suppression holds against all others at once."""


def regress(boxes: np.ndarray, shifts: np.ndarray, plus: float) -> np.ndarray:
    """Move the sides of boxes ``(N, 4)`` by shares ``(N, 4)`` of their width and height."""
    extent = np.tile(boxes[:, 2:4] - boxes[:, :2] + plus, 2)
    return boxes + shifts * extent


def square(boxes: np.ndarray) -> np.ndarray:
    """The squares around boxes ``(N, 4)``, with the same centres and the longer side."""
    centre = (boxes[:, :2] + boxes[:, 2:4]) / 2
    half = (boxes[:, 2:4] - boxes[:, :2]).max(axis=1, keepdims=True) / 2
    return np.column_stack([centre - half, centre + half])


def suppress(
    boxes: np.ndarray, scores: np.ndarray, overlap: float, *, by_smaller: bool = False
) -> np.ndarray:
    """Non-maximum suppression: rows to keep, by falling score.

    Args:
        boxes: ``(N, 4)``.
        scores: ``(N,)``.
        overlap: A box that shares more than this with a better one goes: of their union, or of
            the smaller one.
        by_smaller: Take the share of the smaller box.
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
