"""Server limits: requests per minute, concurrent uploads and concurrent work."""

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
    """A key or an address exceeded its rate limit."""

    code = "too_many_requests"


class Busy(FaceError):
    """The server's queue is full."""

    code = "busy"


class RateLimiter:
    """A token bucket per caller.

    Args:
        per_minute: Requests per minute, and the largest burst; 0 for no limit.
        callers: Most callers remembered; the least recently seen are dropped first.
        clock: A monotonic clock, in seconds.
        everywhere: Counts a caller's request across all servers against the limit and returns
            the seconds to wait; None for a single server.
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

    def check(self, caller: str) -> None:
        """Count one request of ``caller``.

        Raises:
            TooManyRequests: The limit is reached; ``details["retry_after"]`` is the wait in
                seconds.
        """
        if not self.per_minute:
            return
        rate = self.per_minute / 60
        with self._lock:
            now = self._clock()
            tokens, then = self._buckets.pop(caller, (float(self.per_minute), now))
            tokens = min(float(self.per_minute), tokens + (now - then) * rate)
            allowed = tokens >= 1
            self._buckets[caller] = (tokens - allowed, now)
            while len(self._buckets) > self.callers:
                self._buckets.popitem(last=False)
        if not allowed:
            raise self._refusal((1 - tokens) / rate)

    async def check_everywhere(self, caller: str) -> None:
        """Count one request of ``caller`` here and on all servers; raises like :meth:`check`."""
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
    """Limits how many request bodies are received at once; further requests wait for a slot.

    Args:
        places: Most requests received at once.
        share: Most of these from one caller, so that a slow sender blocks nobody else.
    """

    def __init__(self, places: int, share: int, wait_seconds: float) -> None:
        self.places = places
        self.share = share
        self.wait_seconds = wait_seconds
        self.arriving: Counter[str] = Counter()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def place(self, caller: str) -> AsyncIterator[None]:
        """Hold a slot while the request of ``caller`` arrives.

        Raises:
            Busy: No slot was free in time.
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
        """Check that a slot is free."""
        if self.arriving.total() >= self.places:
            raise Busy("Too many requests arrive at once. Try again.", retry_after=5)

    def _is_free(self, caller: str) -> bool:
        return self.arriving.total() < self.places and self.arriving[caller] < self.share


class WorkQueue:
    """A thread pool with a bounded queue.

    Args:
        depth: Requests that may wait.
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
        """Hold a queue slot from the request's arrival until its response.

        Raises:
            Busy: The queue is full.
        """
        self._require_room()
        self.admitted += 1
        try:
            yield
        finally:
            self.admitted -= 1

    async def probe(self, function: Callable[[], T]) -> T:
        """Run a short check outside the workers, one at a time, if the queue has room.

        It takes no queue slot, so frequent checks cannot crowd out requests.

        Raises:
            Busy: The queue is full.
        """
        self._require_room()
        async with self._probing:
            return await anyio.to_thread.run_sync(function)

    def _require_room(self) -> None:
        if self.admitted >= self.workers + self.depth:
            raise Busy("The server is at work on as much as it takes on. Try again.", retry_after=1)

    async def run(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call ``function`` in a worker thread.

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
