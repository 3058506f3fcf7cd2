"""Rate limits against a reckoning by hand; the queue under more work than it takes."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.web.callers import address_group
from app.web.limits import (
    ArrivalLimiter,
    Busy,
    RateLimiter,
    TooManyRequests,
    WorkQueue,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def allowed(limiter: RateLimiter, caller: str = "a") -> bool:
    try:
        limiter.check(caller)
    except TooManyRequests:
        return False
    return True


def test_a_minute_allows_so_many_and_refills() -> None:
    clock = Clock()
    limiter = RateLimiter(6, clock=clock)
    assert [allowed(limiter) for _ in range(8)] == [True] * 6 + [False] * 2
    assert allowed(limiter, "b")
    clock.now += 10.5
    assert [allowed(limiter) for _ in range(2)] == [True, False]


def test_retry_after_is_when_it_works_again() -> None:
    clock = Clock()
    limiter = RateLimiter(2, clock=clock)
    allowed(limiter), allowed(limiter)
    with pytest.raises(TooManyRequests) as caught:
        limiter.check("a")
    wait = caught.value.details["retry_after"]
    clock.now += wait
    assert allowed(limiter)


@settings(max_examples=50, deadline=None)
@given(
    steps=st.lists(st.floats(0, 30, allow_nan=False), max_size=60), per_minute=st.integers(1, 30)
)
def test_never_more_than_the_rate_plus_one_burst(steps: list[float], per_minute: int) -> None:
    clock = Clock()
    limiter = RateLimiter(per_minute, clock=clock)
    passed = 0
    for step in steps:
        clock.now += step
        passed += allowed(limiter)
    assert passed <= per_minute + per_minute / 60 * (clock.now - 100) + 1e-6


def test_zero_means_no_limit() -> None:
    assert all(allowed(RateLimiter(0)) for _ in range(5))


def test_memory_for_callers_is_bounded() -> None:
    limiter = RateLimiter(5, callers=10, clock=Clock())
    for number in range(1000):
        limiter.check(str(number))
    assert len(limiter._buckets) == 10


def test_an_ipv6_network_is_one_caller() -> None:
    assert address_group("2001:db8::1") == address_group("2001:db8::ffff:2")
    assert address_group("2001:db8:0:1::1") != address_group("2001:db8::1")
    assert address_group("10.0.0.1") != address_group("10.0.0.2")


def test_an_ipv4_caller_of_an_ipv6_socket_is_a_caller_of_its_own() -> None:
    assert address_group("::ffff:10.0.0.1") == "10.0.0.1"
    assert address_group("::ffff:10.0.0.1") != address_group("::ffff:10.0.0.2")


def test_the_queue_bounds_what_runs_and_what_waits() -> None:
    running, most = 0, 0
    lock = threading.Lock()

    def work(number: int) -> int:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        time.sleep(0.02)
        with lock:
            running -= 1
        return number

    async def request(queue: WorkQueue, number: int) -> int | str:
        try:
            with queue.admit():
                return await queue.run(work, number)
        except Busy as error:
            return f"busy, retry after {error.details['retry_after']}"

    async def main() -> list[int | str]:
        queue = WorkQueue(workers=2, depth=3, wait_seconds=5)
        answers = await asyncio.gather(*(request(queue, n) for n in range(20)))
        assert queue.admitted == queue.running == 0
        return answers

    answers = asyncio.run(main())
    assert most <= 2
    assert answers == [0, 1, 2, 3, 4] + ["busy, retry after 1"] * 15


def test_probes_take_no_place_of_work() -> None:
    async def main() -> None:
        queue = WorkQueue(workers=1, depth=1, wait_seconds=5)
        release = threading.Event()
        with queue.admit():
            working = asyncio.create_task(queue.run(release.wait))
            probes = [queue.probe(lambda: "there") for _ in range(20)]
            assert await asyncio.gather(*probes) == ["there"] * 20, "while the worker is busy"
            assert queue.admitted == 1
            with queue.admit(), pytest.raises(Busy):
                await queue.probe(lambda: "full")
            release.set()
            assert await working

    asyncio.run(main())


def test_a_caller_that_fills_its_share_of_the_doorway_keeps_out_only_itself() -> None:
    async def main() -> None:
        arrivals = ArrivalLimiter(places=4, share=2, wait_seconds=0.05)
        async with arrivals.place("slow"), arrivals.place("slow"):
            with pytest.raises(Busy):
                async with arrivals.place("slow"):
                    pass
            async with arrivals.place("a"), arrivals.place("b"):
                with pytest.raises(Busy):
                    async with arrivals.place("c"):
                        pass
        assert not arrivals.arriving

    asyncio.run(main())


def test_the_doorway_lets_in_whoever_waits_once_a_place_is_free() -> None:
    async def main() -> None:
        arrivals = ArrivalLimiter(places=1, share=1, wait_seconds=5)
        most, entered = 0, []

        async def request(number: int) -> None:
            nonlocal most
            async with arrivals.place(str(number % 2)):
                most = max(most, arrivals.arriving.total())
                await asyncio.sleep(0.001)
                entered.append(number)

        await asyncio.gather(*map(request, range(20)))
        assert sorted(entered) == list(range(20))
        assert most == 1
        assert not arrivals.arriving

    asyncio.run(main())


def test_waiting_for_a_worker_ends() -> None:
    async def main() -> None:
        queue = WorkQueue(workers=1, depth=5, wait_seconds=0.05)
        release = threading.Event()
        first = asyncio.create_task(queue.run(release.wait, 60))
        while not queue.running:
            await asyncio.sleep(0)
        with pytest.raises(Busy):
            await queue.run(time.sleep, 0)
        release.set()
        assert await first
        await queue.run(time.sleep, 0)

    asyncio.run(main())


def test_a_failing_job_gives_its_place_back() -> None:
    def fail() -> None:
        raise KeyError("x")

    async def main() -> None:
        queue = WorkQueue(workers=1, depth=0, wait_seconds=1)
        for _ in range(3):
            with pytest.raises(KeyError), queue.admit():
                await queue.run(fail)
        assert queue.admitted == queue.running == 0

    asyncio.run(main())
