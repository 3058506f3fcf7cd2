"""Bounds on what a server takes on: requests a minute, requests at once."""

from __future__ import annotations

import asyncio
import functools
import math
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import ParamSpec, TypeVar

import anyio

from model.errors import FaceError

P = ParamSpec("P")
T = TypeVar("T")


class TooManyRequests(FaceError):
    """A key or an address asked more often than it may."""

    code = "too_many_requests"


class Busy(FaceError):
    """The server has as much waiting as it takes on."""

    code = "busy"


class RateLimiter:
    """A token bucket for each caller.

    Args:
        per_minute: Requests a minute in the long run, and at most at once; 0 for no limit.
        callers: Most callers remembered; the longest unseen are forgotten first.
        clock: Seconds, ascending.
        everywhere: Counts a request of a caller at all servers, given the limit, and returns the
            seconds to wait; None for one server.
    """

    def __init__(
        self,
        per_minute: int,
        *,
        callers: int = 10_000,
        clock: Callable[[], float] = time.monotonic,
        everywhere: Callable[[str, int], float] | None = None,
    ) -> None:
        self.per_minute = per_minute
        self._everywhere = everywhere
        self.callers = callers
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def check(self, caller: str, *, take: bool = True) -> None:
        """Count one request of ``caller``; with ``take`` false only ask whether one is left.

        Raises:
            TooManyRequests: None is left; ``details["retry_after"]`` says for how many seconds.
        """
        if not self.per_minute:
            return
        rate = self.per_minute / 60
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(caller, (float(self.per_minute), now))
            tokens = min(float(self.per_minute), tokens + (now - then) * rate)
            allowed = tokens >= 1
            self._buckets[caller] = (tokens - (allowed and take), now)
            while len(self._buckets) > self.callers:
                self._buckets.popitem(last=False)
        if not allowed:
            raise self._refusal((1 - tokens) / rate)

    async def check_everywhere(self, caller: str) -> None:
        """Count one request of ``caller`` here and at all servers; raises as :meth:`check`."""
        self.check(caller)
        if self._everywhere is not None and self.per_minute:
            wait = await anyio.to_thread.run_sync(self._everywhere, caller, self.per_minute)
            if wait:
                raise self._refusal(wait)

    def _refusal(self, seconds: float) -> TooManyRequests:
        wait = math.ceil(seconds)
        return TooManyRequests(
            f"More than {self.per_minute} requests a minute. Try again in {wait} s.",
            retry_after=wait,
        )


class ArrivalLimiter:
    """Places for requests that are still arriving; more wait until one is free.

    Args:
        places: Requests that may arrive at once.
        share: Of these, at most so many for one caller: whoever sends slowly blocks nobody else.
        wait_seconds: Longest wait for a place.
    """

    def __init__(self, places: int, share: int, wait_seconds: float) -> None:
        self.places = places
        self.share = share
        self.wait_seconds = wait_seconds
        self.arriving: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Hold a place while the request of ``caller`` arrives.

        Raises:
            Busy: None was free in time.
        """
        try:
            async with asyncio.timeout(self.wait_seconds):
                while not self._is_free(caller):
                    await self._freed.wait()
        except TimeoutError:
            raise Busy("Too many requests arrive at once. Try again.", retry_after=5) from None
        self.arriving[caller] += 1
        try:
            yield
        finally:
            self.arriving[caller] -= 1
            if not self.arriving[caller]:
                del self.arriving[caller]
            self._freed.set()
            self._freed = asyncio.Event()

    def require_room(self) -> None:
        """Raises:
        Busy: Every place is taken.
        """
        if self.arriving.total() >= self.places:
            raise Busy("Too many requests arrive at once. Try again.", retry_after=5)

    def _is_free(self, caller: str) -> bool:
        return self.arriving.total() < self.places and self.arriving[caller] < self.share


class WorkQueue:
    """Runs work in a few threads and lets only so many requests wait for one.

    Args:
        workers: Requests worked on at once.
        depth: Requests that may wait.
        wait_seconds: Longest wait for a worker.
    """

    def __init__(self, workers: int, depth: int, wait_seconds: float) -> None:
        self.workers = workers
        self.depth = depth
        self.wait_seconds = wait_seconds
        self.admitted = 0
        self.running = 0
        self._slots = asyncio.Semaphore(workers)
        self._probing = asyncio.Lock()

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Hold a place from when the request has arrived until it is answered.

        Raises:
            Busy: All places are taken.
        """
        self._require_room()
        self.admitted += 1
        try:
            yield
        finally:
            self.admitted -= 1

    async def probe(self, function: Callable[[], T]) -> T:
        """Call something short beside the workers, one at a time, if a request would find a place.

        It takes no place itself: whoever asks often must not keep others from theirs.

        Raises:
            Busy: All places are taken.
        """
        self._require_room()
        async with self._probing:
            return await anyio.to_thread.run_sync(function)

    def _require_room(self) -> None:
        if self.admitted >= self.workers + self.depth:
            raise Busy("The server is at work on as much as it takes on. Try again.", retry_after=1)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in a worker's thread.

        Raises:
            Busy: No worker was free in time.
        """
        try:
            async with asyncio.timeout(self.wait_seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise Busy(
                f"No worker was free within {self.wait_seconds:g} s. Try again.", retry_after=5
            ) from None
        self.running += 1
        try:
            return await anyio.to_thread.run_sync(functools.partial(function, *args, **kwargs))
        finally:
            self.running -= 1
            self._slots.release()
