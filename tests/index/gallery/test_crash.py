"""Acknowledged means durable: enrollment is killed at random moments and checked each time."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

from index.gallery import Gallery
from tests.index.gallery.crash_child import PHOTOS
from tests.index.helpers import MODEL
from tests.paths import ROOT

KILLS = 200


def kill_once(process: subprocess.Popen, seed: int, chance: random.Random) -> list[str]:
    """Starts a child, kills it at a random moment, and returns the acknowledged names.

    The moment is counted from a random acknowledgement, so that the kills fall into the work on
    a slow machine as on a fast one.
    """
    process.stdin.write(f"{seed}\n")
    process.stdin.flush()
    word, child = process.stdout.readline().split()
    assert word == "pid"
    names: list[str] = []
    for _ in range(chance.randrange(5)):
        names += process.stdout.readline().split()
    time.sleep(chance.uniform(0.0, 0.02))
    os.kill(int(child), signal.SIGKILL)
    while (line := process.stdout.readline()) != "dead\n":
        assert line, "the process that starts the children has ended"
        names += line.split()
    return names


def check(folder: Path, acknowledged: set[str], checked: int) -> tuple[int, int]:
    """Every acknowledged person is whole, and so is everyone else who is there."""
    connection = sqlite3.connect(folder / "gallery.sqlite")
    assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    rows = connection.execute(
        "SELECT people.number, COUNT(photos.id), COUNT(embeddings.photo), COUNT(thumbnails.photo) "
        "FROM people LEFT JOIN photos ON photos.person = people.number "
        "LEFT JOIN embeddings ON embeddings.photo = photos.id "
        "LEFT JOIN thumbnails ON thumbnails.photo = photos.id "
        "WHERE people.number > ? GROUP BY people.number",
        (checked,),
    ).fetchall()
    assert {row[1:] for row in rows} <= {(PHOTOS, PHOTOS, PHOTOS)}
    logged, stored = connection.execute(
        "SELECT (SELECT COUNT(*) FROM changes), (SELECT photos FROM counts)"
    ).fetchone()
    assert logged == stored
    connection.close()
    with Gallery.open(folder, model_id=MODEL) as gallery:
        for name in acknowledged:
            (person,) = gallery.reader.find_by_name(name)
            assert len(gallery.changes.vectors_of_people([person.id])) == PHOTOS
            for photo in gallery.reader.photos(person.id):
                assert gallery.reader.thumbnail(photo.id) is not None
    return max((row[0] for row in rows), default=checked), len(rows)


def test_kill_at_200_random_moments_loses_nothing_acknowledged(tmp_path: Path) -> None:
    """All kills hit the same gallery, so each recovery starts from what the last one left."""
    chance = random.Random(4)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.index.gallery.crash_child", str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    Gallery.open(tmp_path, model_id=MODEL).close()
    everyone: set[str] = set()
    checked = people = interrupted = 0
    try:
        for seed in range(KILLS):
            names = kill_once(process, seed, chance)
            checked, new = check(tmp_path, set(names), checked)
            # A person committed but not yet acknowledged is allowed; a lost one is not.
            assert new >= len(names)
            interrupted += bool(names)
            everyone |= set(names)
            people += new
    finally:
        process.stdin.close()
        process.wait(timeout=120)
    connection = sqlite3.connect(tmp_path / "gallery.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        assert gallery.reader.count() == people
        assert everyone <= {person.name for person in gallery.reader.iter_people()}
    # The kills fell into the work, not before it.
    assert interrupted > KILLS // 2
