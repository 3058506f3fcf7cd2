"""The first stage of a batch: from an encoded photo to the one face that is meant, or why not.

Finding a face is hundreds of small steps in Python, so threads hold each other up. For many
photos it runs in processes of its own, which is about twice as fast on two cores.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import partial
from multiprocessing import get_context

from app.settings import Settings
from app.usecases.enroll import failed
from app.usecases.pipeline import FaceFinder, Pipeline, only_face
from app.usecases.results import DetectedFace, PhotoResult
from model.errors import BadImage, FaceError
from model.faces.detect import ChoicePolicy, Detector, choose
from model.workers import begin_work

ENOUGH = 128
"""Photos that are worth the seconds a process takes to start."""

Look = Callable[[bytes, str], DetectedFace | PhotoResult]
"""From an encoded photo and its name to its face or its result."""

_look_here: Look


def look(
    finder: FaceFinder, policy: ChoicePolicy, data: bytes, file: str
) -> DetectedFace | PhotoResult:
    """The face of a photo that ``policy`` means, or the result of a photo without one."""
    try:
        photo = finder.photo(data)
        if policy == "exactly_one" or not photo.faces:
            return only_face(photo, None, repr(file))
        chosen = choose([found.face for found in photo.faces], policy, photo.image.shape)[0]
        return next(found for found in photo.faces if found.face is chosen)
    except FaceError as error:
        return failed(file, error)


@contextmanager
def lookers(pipeline: Pipeline, policy: ChoicePolicy, photos: int, workers: int) -> Iterator[Look]:
    """A function that looks at one photo, to be called from ``workers`` threads or more.

    Args:
        pipeline: Finds faces where processes are not worth it.
        policy: Which face is meant.
        photos: How many are to be expected.
        workers: Photos looked at at the same time.
    """
    if photos < ENOUGH or pipeline.embedder.device != "cpu":
        yield partial(look, pipeline, policy)
        return
    processes = _Processes(workers, pipeline.settings, policy)
    try:
        yield processes.look
    finally:
        processes.close()


class _Processes:
    """A pool that outlives a photo its process dies of."""

    def __init__(self, workers: int, settings: Settings, policy: ChoicePolicy) -> None:
        self._workers, self._given = workers, (settings, policy)
        self._lock = threading.Lock()
        self._pool = self._open(workers)

    def _open(self, workers: int) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            workers, mp_context=get_context("spawn"), initializer=_start, initargs=self._given
        )

    def look(self, data: bytes, file: str) -> DetectedFace | PhotoResult:
        pool = self._pool
        try:
            return pool.submit(_look, data, file).result()
        except BrokenProcessPool:
            with self._lock:
                if self._pool is pool:
                    self._pool = self._open(self._workers)
            # One of the photos under way did it. Alone, each shows whether it was the one.
            return self._look_alone(data, file)

    def _look_alone(self, data: bytes, file: str) -> DetectedFace | PhotoResult:
        with self._open(1) as pool:
            try:
                return pool.submit(_look, data, file).result()
            except BrokenProcessPool:
                message = f"{file!r} ended the process that looked at it; it may be damaged."
                return failed(file, BadImage(message))

    def close(self) -> None:
        self._pool.shutdown(cancel_futures=True)


def _start(settings: Settings, policy: ChoicePolicy) -> None:
    global _look_here
    begin_work()
    _look_here = partial(look, FaceFinder(Detector(), settings), policy)


def _look(data: bytes, file: str) -> DetectedFace | PhotoResult:
    return _look_here(data, file)
