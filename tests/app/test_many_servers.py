"""Three servers on one PostgreSQL while servers are killed and the database is restarted."""

from __future__ import annotations

import asyncio
import os
import random
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from statistics import median

import httpx
import pytest

from app.audit import AuditLog
from index.engines.open import open_index
from index.engines.sync import compare
from index.gallery import Gallery
from index.gallery.connect import connect_shared
from tests.app import storm
from tests.app.storm import Account, Server
from tests.index.postgresql_server import PostgresServer, start_server
from tests.waiting import eventually

SECONDS = float(os.environ.get("STORM_SECONDS", "300"))
CLIENTS = 32
KILLS = max(1, round(20 * SECONDS / 300))
RESTARTS = ("fast", "immediate")
"""How the database is stopped: in order, and as in a crash."""


@pytest.fixture
def postgresql() -> Iterator[PostgresServer]:
    server = start_server(Path("/tmp"))
    yield server
    server.remove()


def free_port() -> int:
    with closing(socket.socket()) as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def disturb(servers: list[Server], postgresql: PostgresServer, end: float) -> int:
    """Kills servers at random and restarts the database twice; returns the number of kills."""
    chance, begun, kills, restarts = random.Random(2), time.monotonic(), 0, list(RESTARTS)
    moments = sorted(chance.uniform(begun, end - 5) for _ in range(KILLS))
    stops = [begun + (end - begun) * part for part in (0.35, 0.7)]
    with ThreadPoolExecutor(len(servers)) as pool:
        starting = []
        while moments or restarts:
            time.sleep(0.05)
            if restarts and time.monotonic() > stops[-len(restarts)]:
                postgresql.stop(restarts.pop(0))
                time.sleep(chance.uniform(1, 4))
                postgresql.start()
            running = [server for server in servers if server.up]
            if moments and time.monotonic() > moments[0] and running:
                victim = chance.choice(running)
                victim.kill()
                starting.append(pool.submit(victim.start))
                moments.pop(0)
                kills += 1
        for each in starting:
            each.result()
    return kills


@pytest.mark.server
def test_nothing_is_lost_while_servers_are_killed_and_the_database_restarts(
    tmp_path: Path, bundle_folder: Path, postgresql: PostgresServer
) -> None:
    url = postgresql.new_gallery()
    servers = []
    for name in ("one", "two", "three"):
        (tmp_path / name).mkdir()
        servers.append(Server(tmp_path / name, free_port(), bundle_folder, url))
    photos, account = storm.pictures(120), Account()
    try:
        for server in servers:
            server.start()
        end = time.monotonic() + SECONDS
        with ThreadPoolExecutor(1) as pool:
            work = storm.clients(servers, account, photos, CLIENTS, end)
            working = pool.submit(asyncio.run, work)
            kills = disturb(servers, postgresql, end)
            working.result(300)
        print(f"\n{CLIENTS} clients, {SECONDS:.0f} s, {kills} kills, {len(RESTARTS)} restarts",
              *account.lines(), sep="\n")  # fmt: skip
        check_servers(servers, account)
        account.delays.clear()
        again = asyncio.run(storm.calm(servers, account, photos, 30))
        print(f"afterwards, one client alone: {account.lines()[-1]}; looking again takes "
              f"{median(again):.2f} s")  # fmt: skip
    finally:
        for server in servers:
            server.kill()
    assert not account.wrong, account.wrong[:10]
    assert account.seen["enroll"] > SECONDS / 5
    assert account.seen["forget"] > SECONDS / 20
    assert kills == KILLS
    assert len(account.delays) == len(again) == 30
    # The first look, which has to see the enrollment, is not slower by a second than another.
    assert median(account.delays) < median(again) + 1
    check_gallery(tmp_path, url, account)


def check_servers(servers: list[Server], account: Account) -> None:
    """Every server lists everyone acknowledged and nobody forgotten, and has caught up."""
    for server in servers:
        with httpx.Client(base_url=server.address, timeout=60) as http:
            assert eventually(lambda: http.get("/ready").json().get("behind") == 0, 30)
            total, names = http.get("/v1/people").json()["total"], set()
            for offset in range(0, total, 1000):
                page = http.get("/v1/people", params={"limit": 1000, "offset": offset})
                names |= {person["name"] for person in page.json()["people"]}
            assert len(names) == total
            assert set(account.there()) <= names, "acknowledged and lost"
            assert not names & account.gone(), "forgotten and back"
            for name, (person_id, photo) in random.Random(3).sample(
                sorted(account.there().items()), min(20, len(account.there()))
            ):
                assert http.get(f"/v1/people/{person_id}").json()["name"] == name
                found = http.post("/v1/search", files={"img": photo}, data={"top": storm.TOP})
                candidates = found.json()["faces"][0]["candidates"]
                assert name in [each["identity"] for each in candidates]


def check_gallery(folder: Path, url: str, account: Account) -> None:
    """Everyone is whole, log and counts have no gap, and the index can be made from them."""
    with Gallery.open(folder / "check", url=url) as gallery:
        everyone = list(gallery.reader.iter_people())
        assert {person.photos for person in everyone} == {1}
        assert len(gallery.changes.photo_ids()) == len(everyone)
        assert gallery.reader.counts().photos == gallery.reader.counts().people == len(everyone)
        seqs = [change.seq for change in gallery.changes.since(0, limit=10**6)]
        assert seqs == list(range(1, len(seqs) + 1))
        for person in everyone[:50]:
            (photo,) = gallery.reader.photos(person.id)
            assert gallery.reader.thumbnail(photo.id) is not None
        index = open_index(gallery)
        assert compare(gallery, index).whole
        index.close()
    with closing(connect_shared(url)) as shared:
        assert AuditLog(shared).check() is None
