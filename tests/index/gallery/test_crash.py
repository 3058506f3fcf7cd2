"""Acknowledged means durable: enrolling and forgetting are killed at random and checked.

On PostgreSQL the database is hit as well: connections in the midst of their work are ended, and
the whole server crashes, while the writer goes on.
"""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.index.conftest import Place
from tests.index.gallery.crash_child import PHOTOS
from tests.index.postgresql_server import PostgresServer
from tests.paths import ROOT
from tests.waiting import eventually

_WHOLE = (
    "SELECT people.number, COUNT(photos.id), COUNT(embeddings.photo), COUNT(thumbnails.photo) "
    "FROM people LEFT JOIN photos ON photos.person = people.number "
    "LEFT JOIN embeddings ON embeddings.photo = photos.id "
    "LEFT JOIN thumbnails ON thumbnails.photo = photos.id "
    "WHERE people.number > ? GROUP BY people.number"
)


@dataclass
class Victim:
    """The process that forks a child for each kill, and the child at work."""

    process: subprocess.Popen[str]
    child: int = 0
    said: list[str] = field(default_factory=list)

    @classmethod
    def start(cls, place: Place) -> Victim:
        arguments = [str(place.folder), *([place.url] if place.url else [])]
        return cls(
            subprocess.Popen(
                [sys.executable, "-m", "tests.index.gallery.crash_child", *arguments],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
        )

    def fork(self, seed: int) -> None:
        self.process.stdin.write(f"{seed}\n")
        self.process.stdin.flush()
        word, child = self.process.stdout.readline().split()
        assert word == "pid"
        self.child, self.said = int(child), []

    def listen(self, chance: random.Random) -> None:
        """Waits for a random moment.

        It is counted from a random acknowledgement, so that the kills fall into the work on a slow
        machine as on a fast one.
        """
        for _ in range(chance.randrange(8)):
            self.said += self.process.stdout.readline().split()
        time.sleep(chance.uniform(0.0, 0.02))

    def kill(self) -> list[str]:
        """Kills the child and returns all it has said."""
        os.kill(self.child, signal.SIGKILL)
        while (line := self.process.stdout.readline()) != "dead\n":
            assert line, "the process that starts the children has ended"
            self.said += line.split()
        return self.said

    def end(self) -> None:
        self.process.stdin.close()
        self.process.wait(timeout=120)


def hit_database(server: PostgresServer, chance: random.Random) -> None:
    """Ends a connection in the midst of its work, or crashes the server and starts it again."""
    import psycopg

    busy: list[tuple[int]] = []

    def find() -> bool:
        found = admin.execute(
            "SELECT pid FROM pg_stat_activity WHERE usename = 'faces' "
            "AND state IN ('active', 'idle in transaction')"
        )
        busy.extend(found.fetchall())
        return bool(busy)

    with psycopg.connect(server.url("postgres", "admin"), autocommit=True) as admin:
        assert eventually(find), "the writer uses the database"
        if chance.random() < 0.7:
            admin.execute("SELECT pg_terminate_backend(%s)", busy[0])
            return
    server.stop("immediate")
    server.start()


def check(place: Place, there: set[str], gone: set[str], checked: int) -> tuple[int, int]:
    """Everyone acknowledged is whole, and so is everyone else; nobody forgotten is back."""
    with place.open() as gallery:
        # The database may still be ending the transaction of a killed process.
        with gallery.batch(), gallery._db.read() as connection:
            rows = connection.execute(_WHOLE, (checked,)).fetchall()
            counted = connection.execute("SELECT people, photos FROM counts").fetchone()
            stored = connection.execute(
                "SELECT (SELECT COUNT(*) FROM people), (SELECT COUNT(*) FROM photos)"
            ).fetchone()
        assert {row[1:] for row in rows} <= {(PHOTOS, PHOTOS, PHOTOS)}
        assert counted == stored
        assert not any(gallery.reader.find_by_name(name) for name in gone)
        for name in there:
            (person,) = gallery.reader.find_by_name(name)
            assert len(gallery.changes.vectors_of_people([person.id])) == PHOTOS
            for photo in gallery.reader.photos(person.id):
                assert gallery.reader.thumbnail(photo.id) is not None
    return max((row[0] for row in rows), default=checked), len(rows)


@pytest.mark.parametrize(
    ("database", "kills"),
    [
        ("sqlite", 150),
        ("postgresql", 40),
        pytest.param("sqlite", 1000, marks=pytest.mark.slow),
        pytest.param("postgresql", 1000, marks=pytest.mark.slow),
    ],
)
def test_kills_lose_nothing_acknowledged_and_bring_nobody_back(
    request: pytest.FixtureRequest, tmp_path: Path, database: str, kills: int
) -> None:
    """All kills hit the same gallery, so each recovery starts from what the last one left."""
    chance, server = random.Random(4), None
    if database == "postgresql":
        server = request.getfixturevalue("postgresql")
    place = Place(tmp_path, server.new_gallery() if server else None)
    place.open().close()
    victim = Victim.start(place)
    everyone: set[str] = set()
    forgotten: set[str] = set()
    checked = people = interrupted = forgetting = hits = 0
    try:
        for seed in range(kills):
            victim.fork(seed)
            victim.listen(chance)
            if server and chance.random() < 0.3:
                hit_database(server, chance)
                victim.listen(chance)
                hits += 1
            said = victim.kill()
            begun = {word[1:] for word in said if word[0] == "?"}
            gone = {word[1:] for word in said if word[0] == "-"}
            # Whoever was being forgotten may be there or not.
            there = {word for word in said if word[0] not in "?-"} - begun
            checked, new = check(place, there, gone, checked)
            # A person committed but not yet acknowledged is allowed; a lost one is not.
            assert new >= len(there)
            interrupted += bool(said)
            forgetting += begun != gone
            everyone |= there
            forgotten |= gone
            people += new
    finally:
        victim.end()
    if server is None:
        with closing(sqlite3.connect(tmp_path / "gallery.sqlite")) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
            assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    with place.open() as gallery:
        assert gallery.reader.count() == people
        left = {person.name for person in gallery.reader.iter_people()}
    print(f"\n{database}: {kills} kills, {hits} of the database; {len(everyone)} people kept, "
          f"{len(forgotten)} forgotten")  # fmt: skip
    assert everyone <= left
    assert not forgotten & left
    # The kills fell into the work, not before it, and into both kinds of it.
    assert interrupted > kills // 2
    assert forgetting > kills // 50
    assert hits > kills // 5 or server is None
