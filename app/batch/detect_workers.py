"""The first stage of a batch: decode each photo and choose its face.

Detection takes hundreds of small steps in Python, so threads block each other. For many photos
it runs in worker processes instead, which is about twice as fast on two cores.
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
"""Fewest photos for which starting worker processes, which takes seconds, is worth it."""

Look = Callable[[bytes, str], DetectedFace | PhotoResult]
"""Takes an encoded photo and its name; returns its face, or the result of a failed photo."""

_look_here: Look


def look(
    finder: FaceFinder, policy: ChoicePolicy, data: bytes, file: str
) -> DetectedFace | PhotoResult:
    """Return the face that ``policy`` chooses, or the result of a photo without one."""
    try:
        photo = finder.photo(data)
        if policy == "exactly_one" or not photo.faces:
            return only_face(photo, None, repr(file))
        chosen = choose([found.face for found in photo.faces], policy, photo.picture.shape)[0]
        return next(found for found in photo.faces if found.face is chosen)
    except FaceError as error:
        return failed(file, error)


@contextmanager
def lookers(pipeline: Pipeline, policy: ChoicePolicy, photos: int, workers: int) -> Iterator[Look]:
    """Yield a function that processes one photo; call it from at least ``workers`` threads."""
    if photos < ENOUGH or pipeline.embedder.device != "cpu":
        yield partial(look, pipeline, policy)
        return
    processes = _Processes(workers, pipeline.settings, policy)
    try:
        yield processes.look
    finally:
        processes.close()


class _Processes:
    """A process pool that survives a worker crashing on a bad photo."""

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
            # Any photo in progress may have crashed the pool; retry each one alone to find out.
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
