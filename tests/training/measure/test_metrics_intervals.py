"""How often the intervals of ``evaluate`` hold the truth, on people of known spread."""

from __future__ import annotations

import numpy as np
import pytest

from training.measure import metrics

PHOTOS, RUNS = 6, 200


def people(count: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors of people whose photos differ by more or less, and whose they are."""
    centres = rng.normal(size=(count, 1, 24))
    spread = rng.lognormal(-0.4, 0.35, (count, 1, 1))
    vectors = (centres + spread * rng.normal(size=(count, PHOTOS, 24))).reshape(-1, 24)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors.astype(np.float32), np.repeat(np.arange(count), PHOTOS)


@pytest.mark.slow
def test_how_often_they_hold_the_truth() -> None:
    many = metrics.evaluate(*people(1500, np.random.default_rng(0)), replicates=0)["metrics"]
    held = {}
    for count in (22, 50):
        found = [
            metrics.evaluate(*people(count, np.random.default_rng(1 + run)))["metrics"]
            for run in range(RUNS)
        ]
        for name in ("d_prime", "eer"):
            truth = many[name]["value"]
            inside = [each[name]["low"] <= truth <= each[name]["high"] for each in found]
            held[name, count] = float(np.mean(inside))
    print(f"\nintervals that hold the truth, {RUNS} runs: {held}")
    for name in ("d_prime", "eer"):
        assert 0.75 < held[name, 22] < held[name, 50] + 0.04
        assert held[name, 50] > 0.87
