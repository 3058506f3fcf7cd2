"""Suppression of neighbouring boxes, held against a plain loop."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from model.faces.boxes import suppress


@given(st.integers(0, 200), st.integers(0, 2**31), st.booleans())
@settings(deadline=None, max_examples=40)
def test_suppression_against_a_plain_loop(count: int, seed: int, by_smaller: bool) -> None:
    rng = np.random.default_rng(seed)
    corners = rng.uniform(0, 50, (count, 2))
    boxes = np.column_stack([corners, corners + rng.uniform(1, 30, (count, 2))])
    scores = rng.permutation(count) / max(1, count)

    def overlap(a: np.ndarray, b: np.ndarray) -> float:
        extent = np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2])
        common = float(np.prod(extent)) if (extent > 0).all() else 0.0
        areas = [float(np.prod(box[2:] - box[:2])) for box in (a, b)]
        return common / (min(areas) if by_smaller else sum(areas) - common)

    kept: list[int] = []
    for row in np.argsort(-scores):
        if all(overlap(boxes[row], boxes[other]) <= 0.5 for other in kept):
            kept.append(int(row))
    assert suppress(boxes, scores, 0.5, by_smaller=by_smaller).tolist() == kept
