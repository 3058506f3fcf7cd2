"""Servers of one gallery that can be killed, clients at all of them, and what they were told."""

from __future__ import annotations

import asyncio
import io
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import numpy as np
from PIL import Image

from model.faces.detect import Detector
from tests import samples
from tests.paths import ROOT

GONE, UNSURE = "gone", "unsure"
TOP = 20
START_SECONDS = 120.0


class Server:
    """A server process that can be killed and is started again by hand.

    Attributes:
        port: The same after each start.
        down: When it could not be reached, as pairs of times; the last may still be open.
    """

    def __init__(self, folder: Path, port: int, bundle: Path, gallery: str) -> None:
        self.port = port
        self.address = f"http://127.0.0.1:{port}"
        self.log = folder / "server.log"
        self.down: list[tuple[float, float]] = [(0.0, float("inf"))]
        self._command = [sys.executable, "-m", "app", "--data", folder / "data", "--bundle", bundle,
                         "--gallery", gallery, "--port", port, "--no-page"]  # fmt: skip
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Starts it, and again if the database is away just then; waits until it listens."""
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end:
            with self.log.open("a") as log:
                self._process = subprocess.Popen(
                    list(map(str, self._command)), cwd=ROOT, text=True,
                    env={**os.environ, "OMP_NUM_THREADS": "1", "FACE_RATE_PER_MINUTE": "100000"},
                    stdout=subprocess.PIPE, stderr=log,
                )  # fmt: skip
            if re.search(r"http://\S+", self._process.stdout.readline()):
                self.down[-1] = (self.down[-1][0], time.monotonic())
                return
            self._process.wait()
        raise AssertionError(f"a server does not start: {self.log.read_text()[-2000:]}")

    @property
    def up(self) -> bool:
        return self.down[-1][1] < float("inf")

    def kill(self) -> None:
        self.down.append((time.monotonic(), float("inf")))
        self._process.kill()
        self._process.wait()

    def was_up(self, start: float, end: float) -> bool:
        """Whether it could be reached all the time between two moments."""
        return not any(begun <= end and start <= over for begun, over in self.down)


@dataclass
class Account:
    """What the servers have acknowledged, and whatever was not as it should be.

    Attributes:
        people: By name: the id and photo of an enrolled person, `GONE` after a forgetting, or
            `UNSURE` after an answer that never came or was a 503.
        wrong: Sentences on errors.
        seen: Numbers of answers and failures by kind.
        delays: Seconds from the acknowledgement of an enrollment until a search that found it had
            been answered.
    """

    people: dict[str, tuple[str, bytes] | str] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    delays: list[float] = field(default_factory=list)

    def there(self) -> dict[str, tuple[str, bytes]]:
        return {name: each for name, each in self.people.items() if isinstance(each, tuple)}

    def gone(self) -> set[str]:
        return {name for name, each in self.people.items() if each == GONE}

    def lines(self) -> list[str]:
        found = (
            f"found by all servers after a median of {median(self.delays):.2f} s, "
            f"{max(self.delays):.2f} s at most"
            if self.delays
            else "nobody was looked for"
        )
        counts = ", ".join(f"{kind} {number}" for kind, number in sorted(self.seen.items()))
        return [
            counts,
            f"{len(self.there())} people at the end, {len(self.gone())} forgotten",
            found,
        ]


def pictures(number: int) -> list[bytes]:
    """So many different photos, each with one face: small, leaning, mirrored, coloured."""
    chance, detector, made = random.Random(1), Detector(), []
    sources = [Image.fromarray(samples.collins()), Image.fromarray(samples.hopper())]
    faces = [detector.detect(np.asarray(source))[0].box for source in sources]
    while len(made) < number:
        which = chance.randrange(2)
        left, top, right, bottom = faces[which]
        wide = (right - left) * chance.uniform(0.6, 0.9)
        middle = ((left + right) / 2 + wide * chance.uniform(-0.1, 0.1), (top + bottom) / 2)
        picture = sources[which].rotate(chance.uniform(-12, 12), center=middle, resample=2)
        picture = picture.crop(tuple(int(at + sign * wide) for sign in (-1, 1) for at in middle))
        picture = picture.resize((160, 160))
        if chance.random() < 0.5:
            picture = picture.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        shade = [chance.uniform(0.6, 1.0) for _ in range(3)]
        pixels = (np.asarray(picture) * shade).astype(np.uint8)
        if len(detector.detect(pixels)) == 1:
            target = io.BytesIO()
            Image.fromarray(pixels).save(target, "JPEG", quality=92)
            made.append(target.getvalue())
    return made


async def clients(
    servers: list[Server], account: Account, photos: list[bytes], number: int, end: float
) -> None:
    """Lets clients enroll, search and forget until the end."""
    async with _connections(4 * number) as http:
        files = _files(photos, "storm")
        await asyncio.gather(
            *(_Client(n, http, servers, account, files).work(end) for n in range(number))
        )


async def calm(
    servers: list[Server], account: Account, photos: list[bytes], turns: int
) -> list[float]:
    """Lets one client enroll people, one after the other, and look for each at every server twice.

    Returns:
        Seconds of the second looks; the first are in the account.
    """
    seconds = []
    async with _connections(4) as http:
        client = _Client(0, http, servers, account, _files(photos, "calm"))
        for turn in range(turns):
            name = f"calm {turn}"
            there = await client.enroll_and_find(servers[turn % len(servers)], name)
            if there:
                seconds.append(await client.find_everywhere(name, there[1]))
    return seconds


def _connections(most: int) -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=100, limits=httpx.Limits(max_connections=most))


def _files(photos: list[bytes], mark: str) -> Iterator[bytes]:
    """The photos again and again, each as a file of its own: bytes after a JPEG's end count."""
    return (photos[n % len(photos)] + f"{mark} {n}".encode() for n in count())


@dataclass
class _Client:
    number: int
    http: httpx.AsyncClient
    servers: list[Server]
    account: Account
    files: Iterator[bytes]

    async def work(self, end: float) -> None:
        chance = random.Random(self.number)
        for turn in count():
            if time.monotonic() > end:
                return
            name = f"client {self.number} turn {turn}"
            there = await self.enroll_and_find(chance.choice(self.servers), name)
            if there and chance.random() < 0.5:
                person_id, photo = there
                await self._forget(chance, name, person_id)
                await asyncio.gather(*(self._miss(s, name, photo) for s in self.servers))

    async def enroll_and_find(self, server: Server, name: str) -> tuple[str, bytes] | None:
        """Enrolls somebody and looks for them at every server at once.

        Returns:
            Their id and photo; None if the enrollment was not acknowledged.
        """
        photo = next(self.files)
        person_id = await self._enroll(server, name, photo)
        if person_id is None:
            return None
        self.account.delays.append(await self.find_everywhere(name, photo))
        return person_id, photo

    async def find_everywhere(self, name: str, photo: bytes) -> float:
        """Looks for somebody at every server at once; returns the seconds that took."""
        since = time.monotonic()
        await asyncio.gather(*(self._find(s, name, photo) for s in self.servers))
        return time.monotonic() - since

    async def _enroll(self, server: Server, name: str, photo: bytes) -> str | None:
        self.account.people[name] = UNSURE
        status, body = await self._ask(
            server, "enroll", "POST", "/v1/people", files={"photos": photo},
            data={"name": name, "new_person": "true",
                  "overrides": '{"conflict": "storm", "poor_quality": "storm"}'},
        )  # fmt: skip
        if status == 0:
            await asyncio.sleep(0.2)
            return None
        if status != 201 or body["name"] != name:
            self._wrong(f"enrolling {name} gave {status} {body}")
            return None
        self.account.people[name] = body["person_id"], photo
        return body["person_id"]

    async def _search(self, server: Server, photo: bytes) -> list[str] | None:
        """The names among the nearest people; None if this server cannot be asked now."""
        status, body = await self._ask(
            server, "search", "POST", "/v1/search", files={"img": photo}, data={"top": str(TOP)}
        )
        if status == 0:
            return None
        if status != 200:
            self._wrong(f"searching gave {status} {body}")
            return None
        return [each["identity"] for each in body["faces"][0]["candidates"]]

    async def _find(self, server: Server, name: str, photo: bytes) -> None:
        names = await self._search(server, photo)
        if names is not None and name not in names:
            self._wrong(f"{name} is not found at {server.port}")

    async def _miss(self, server: Server, name: str, photo: bytes) -> None:
        names = await self._search(server, photo)
        if names is not None and name in names:
            self._wrong(f"{name} was forgotten and is found at {server.port}")

    async def _forget(self, chance: random.Random, name: str, person_id: str) -> None:
        self.account.people[name] = UNSURE
        while True:
            status, body = await self._ask(
                chance.choice(self.servers), "forget", "DELETE", f"/v1/people/{person_id}"
            )
            if status in (200, 404):
                self.account.people[name] = GONE
                return
            if status:
                self._wrong(f"forgetting {name} gave {status} {body}")
                return
            await asyncio.sleep(0.2)

    async def _ask(
        self, server: Server, kind: str, method: str, path: str, **options: Any
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer; status 0 if the server is away, or said 503 as it should."""
        request_id = f"{self.number}-{self.account.seen.total()}"
        started = time.monotonic()
        try:
            answer = await self.http.request(
                method, server.address + path, headers={"x-request-id": request_id}, **options
            )
        except httpx.TransportError as error:
            if server.was_up(started, time.monotonic()):
                self._wrong(f"{kind} at {server.port}: {error!r}")
            self.account.seen["cut off"] += 1
            return 0, {}
        if answer.headers.get("x-request-id") != request_id:
            self._wrong(f"{kind} got the answer of {answer.headers.get('x-request-id')}")
        if answer.status_code == 503:
            self.account.seen[f"503 {answer.json()['error']['code']}"] += 1
            await asyncio.sleep(min(2.0, float(answer.headers["retry-after"])))
            return 0, {}
        self.account.seen[kind] += 1
        return answer.status_code, answer.json()

    def _wrong(self, what: str) -> None:
        self.account.wrong.append(f"{time.monotonic():.1f} {what}")
