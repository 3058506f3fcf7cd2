"""Looking at photos in processes of their own."""

from __future__ import annotations

import os
import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.batch import detect_workers, enroller
from app.batch.detect_workers import _start as start
from app.settings import Settings
from app.usecases.results import DetectedFace
from tests.app.helpers import Photos


def test_a_photo_that_ends_its_process_spoils_no_other(
    settings: Settings, photos: Photos, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect_workers, "_start", deadly_start)
    processes = detect_workers._Processes(2, settings, "exactly_one")
    with ThreadPoolExecutor(3) as pool:
        files = {"1.jpg": photos.collins, "deadly.jpg": b"deadly", "2.jpg": photos.hopper}
        found = dict(zip(files, pool.map(processes.look, files.values(), files), strict=True))
    processes.close()
    assert found["deadly.jpg"].status == "bad_image"
    assert "ended the process" in found["deadly.jpg"].message
    assert all(isinstance(found[name], DetectedFace) for name in ("1.jpg", "2.jpg"))


def deadly_start(given: Settings, policy: str) -> None:
    """Starts a worker that a certain photo kills."""
    start(given, policy)
    plain = detect_workers._look_here

    def sometimes(data: bytes, file: str) -> object:
        if data == b"deadly":
            os.kill(os.getpid(), signal.SIGKILL)
        return plain(data, file)

    detect_workers._look_here = sometimes


@pytest.mark.parametrize(
    ("processors", "asked", "expected"),
    [(1, None, (1, 1)), (2, None, (1, 1)), (3, None, (2, 1)), (8, None, (4, 4)),
     (64, None, (8, 8)), (2, 2, (2, 1)), (8, 3, (3, 4))],
)  # fmt: skip
def test_processors_are_shared_between_looking_and_the_network(
    monkeypatch: pytest.MonkeyPatch, processors: int, asked: int | None, expected: tuple[int, int]
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert enroller.lookers_and_threads(asked) == expected
