"""The pixels of photos worked on at once never exceed the budget, and everyone gets a turn."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from app.service import FaceService
from app.usecases.pixel_budget import PixelBudget
from tests.app.helpers import blank


def test_what_is_held_never_exceeds_the_budget() -> None:
    budget, most, lock = PixelBudget(100), 0, threading.Lock()

    def work(pixels: int) -> None:
        nonlocal most
        with budget.hold(pixels):
            with lock:
                most = max(most, budget.held)
            time.sleep(0.001)

    sizes = [random.Random(0).randrange(0, 150) for _ in range(300)]
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, sizes))
    assert 50 < most <= 100
    assert budget.held == 0


def test_a_large_photo_is_not_overtaken_for_ever() -> None:
    budget, order = PixelBudget(100), []
    holding = budget.hold(60)
    holding.__enter__()

    def work(pixels: int) -> None:
        with budget.hold(pixels):
            order.append(pixels)

    threads = [threading.Thread(target=work, args=(pixels,)) for pixels in (100, 10)]
    for thread in threads:
        thread.start()
        time.sleep(0.05)
    assert not order, "the small one, which would fit, waits its turn"
    holding.__exit__(None, None, None)
    for thread in threads:
        thread.join(5)
    assert order[0] == 100


def test_a_failing_photo_gives_its_pixels_back() -> None:
    budget = PixelBudget(10)
    with pytest.raises(KeyError), budget.hold(10):
        raise KeyError
    assert budget.held == 0


def test_every_photo_of_the_service_is_held_in_one_budget(
    service: FaceService, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = []
    pipeline = service.context.pipeline
    original = pipeline.faces

    def watched(image: object) -> object:
        held.append(pipeline._budget.held)
        return original(image)

    monkeypatch.setattr(pipeline, "faces", watched)
    service.detect(blank(320, 240))
    assert held == [320 * 240]
    assert pipeline._budget.held == 0
