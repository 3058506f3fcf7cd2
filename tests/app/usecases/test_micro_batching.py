"""Micro-batching changes how often the network runs, never an answer."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from app.usecases.micro_batching import Batcher


def crops(*values: int) -> list[np.ndarray]:
    return [np.full((2, 2), value) for value in values]


def sums(batch: list[np.ndarray]) -> np.ndarray:
    return np.array([[crop.sum()] for crop in batch])


def test_everyone_gets_their_own_rows() -> None:
    batcher = Batcher(sums)
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda n: batcher(crops(n, n + 1000)), range(200)))
    batcher.close()
    for number, answer in enumerate(answers):
        assert answer.tolist() == [[4 * number], [4 * (number + 1000)]]


def test_what_waits_runs_together_up_to_the_limit() -> None:
    sizes: list[int] = []
    started, go = threading.Event(), threading.Event()

    def slow(batch: list[np.ndarray]) -> np.ndarray:
        sizes.append(len(batch))
        started.set()
        assert go.wait(60)
        return sums(batch)

    batcher = Batcher(slow, most=4)
    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(batcher, crops(0))
        assert started.wait(60)
        others = [pool.submit(batcher, crops(n)) for n in range(1, 7)]
        until = time.monotonic() + 60
        while batcher._waiting.qsize() < 6 and time.monotonic() < until:
            time.sleep(0.001)
        go.set()
        assert [each.result().item() for each in (first, *others)] == [0, 4, 8, 12, 16, 20, 24]
    batcher.close()
    assert sizes == [1, 4, 2]


def test_an_error_reaches_its_callers_and_the_next_call_works() -> None:
    def picky(batch: list[np.ndarray]) -> np.ndarray:
        if any(crop.sum() < 0 for crop in batch):
            raise ValueError("negative")
        return sums(batch)

    batcher = Batcher(picky)
    with pytest.raises(ValueError, match="negative"):
        batcher(crops(-1))
    assert batcher(crops(2)).item() == 8
    batcher.close()
