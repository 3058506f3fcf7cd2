"""Many clients at once against a real server, each checking that the answers are its own."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field
from statistics import quantiles

import httpx

from tests.app.helpers import Photos


@dataclass
class Tally:
    """What a load run saw.

    Attributes:
        seconds: Time of each answered request by its kind.
        turned_away: Answers 429 or 503, all with Retry-After.
        wrong: Sentences on whatever was not as it should be.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    turned_away: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def answered(self) -> int:
        return sum(map(len, self.seconds.values()))

    def lines(self) -> list[str]:
        """A row per kind: count, median, 95th percentile."""
        rows = []
        for kind, times in sorted(self.seconds.items()):
            cuts = quantiles(times, n=20) if len(times) > 1 else times * 19
            rows.append(f"{kind:<8} {len(times):>6} {cuts[9]:>8.3f} s {cuts[18]:>8.3f} s")
        return rows


async def run(address: str, photos: Photos, *, clients: int, seconds: float) -> Tally:
    """Let clients mix verify, enroll, search and forget for a while.

    Each client's person has a name of its own and each file bytes of its own; whatever comes
    back about another client's person, or with another pair's score, is noted as wrong.
    """
    tally = Tally()
    pairs = {
        "same": (photos.collins, photos.collins_again),
        "different": (photos.collins, photos.hopper),
        "no_face": (photos.collins, photos.nobody),
    }
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(base_url=address, timeout=120, limits=limits) as http:
        expected = {}
        for kind, (first, second) in pairs.items():
            body = (await http.post("/v1/verify", files={"img1": first, "img2": second})).json()
            expected[kind] = body.get("score", body.get("error", {}).get("code"))
        end = time.monotonic() + seconds
        await asyncio.gather(
            *(
                _client(http, number, pairs, expected, photos, end, tally)
                for number in range(clients)
            )
        )
        left = (await http.get("/v1/people")).json()["total"]
        if left:
            tally.wrong.append(f"{left} people are left in the gallery.")
    return tally


async def _client(http, number, pairs, expected, photos, end, tally) -> None:
    name, turn = f"client {number}", number
    while time.monotonic() < end:
        turn += 1
        kind = list(pairs)[turn % len(pairs)]
        first, second = pairs[kind]
        status, body = await _ask(
            http, tally, "verify", "POST", "/v1/verify", files={"img1": first, "img2": second}
        )
        got = body.get("score", body.get("error", {}).get("code"))
        alike = got == expected[kind] if isinstance(got, str) else abs(got - expected[kind]) < 1e-4
        if not alike:
            tally.wrong.append(f"{name}: {kind} gave {got}, not {expected[kind]} ({status}).")
        face = (photos.collins, photos.hopper)[turn % 2] + f"{name} {turn}".encode()
        status, body = await _ask(
            http, tally, "enroll", "POST", "/v1/people", files={"photos": face},
            data={"name": name, "overrides": '{"conflict": "load", "outlier": "load"}'},
        )  # fmt: skip
        if status != 201 or body["name"] != name:
            tally.wrong.append(f"{name}: enrolling gave {status} {body}.")
            continue
        person = f"/v1/people/{body['person_id']}"
        status, body = await _ask(http, tally, "search", "POST", "/v1/search", files={"img": face})
        if status != 200 or not body["faces"][0]["known"]:
            tally.wrong.append(f"{name}: searching for an enrolled face gave {status} {body}.")
        status, body = await _ask(http, tally, "person", "GET", person)
        if body.get("name") != name:
            tally.wrong.append(f"{name}: {person} is {body}.")
        status, body = await _ask(http, tally, "forget", "DELETE", person)
        if status != 200 or body["people"] != 1:
            tally.wrong.append(f"{name}: forgetting gave {status} {body}.")


async def _ask(http, tally, kind, method, path, **options) -> tuple[int, dict]:
    while True:
        started = time.perf_counter()
        response = await http.request(method, path, **options)
        if response.status_code in (429, 503):
            tally.turned_away += 1
            await asyncio.sleep(float(response.headers["retry-after"]) / 2)
            continue
        tally.seconds.setdefault(kind, []).append(time.perf_counter() - started)
        if response.status_code >= 500:
            tally.wrong.append(f"{kind}: {response.status_code} {response.text[:200]}")
        return response.status_code, response.json()


def kinds(tally: Tally) -> Counter[str]:
    """Answered requests by kind."""
    return Counter({kind: len(times) for kind, times in tally.seconds.items()})
