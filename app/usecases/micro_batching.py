"""Micro-batching: crops that arrive while the network is busy share its next run.

No request waits for a batch to fill: a run starts as soon as the network is free.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future

import numpy as np

Embed = Callable[[Sequence[np.ndarray]], np.ndarray]


class Batcher:
    """Combines concurrent calls of ``embed`` into larger batches.

    Args:
        embed: Turns crops into vectors, row by row.
        most: Most crops combined in one run; a single call may have more.
    """

    def __init__(self, embed: Embed, *, most: int = 32) -> None:
        self._embed = embed
        self._most = most
        self._waiting: queue.SimpleQueue[tuple[Sequence[np.ndarray], Future] | None] = (
            queue.SimpleQueue()
        )
        self._thread = threading.Thread(target=self._work, name="batcher", daemon=True)
        self._thread.start()

    def __call__(self, crops: Sequence[np.ndarray]) -> np.ndarray:
        """Return the vectors of these crops; blocks until their run is done."""
        answer: Future[np.ndarray] = Future()
        self._waiting.put((crops, answer))
        return answer.result()

    def close(self) -> None:
        """Finish the calls already waiting, then end the thread."""
        self._waiting.put(None)
        self._thread.join()

    def _work(self) -> None:
        while (first := self._waiting.get()) is not None:
            calls = [first]
            count = len(first[0])
            ended = False
            while count < self._most and not self._waiting.empty():
                following = self._waiting.get()
                if following is None:
                    ended = True
                    break
                calls.append(following)
                count += len(following[0])
            self._run(calls)
            if ended:
                return

    def _run(self, calls: list[tuple[Sequence[np.ndarray], Future]]) -> None:
        try:
            vectors = self._embed([crop for crops, _ in calls for crop in crops])
        except BaseException as error:
            for _, answer in calls:
                answer.set_exception(error)
            return
        start = 0
        for crops, answer in calls:
            answer.set_result(vectors[start : start + len(crops)])
            start += len(crops)
