"""Acknowledged means durable: enrolling and forgetting are killed at random and checked."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from index.gallery import Gallery
from tests.index.gallery.crash_child import PHOTOS
from tests.index.helpers import MODEL
from tests.paths import ROOT


def kill_once(process: subprocess.Popen, seed: int, chance: random.Random) -> list[str]:
    """Starts a child, kills it at a random moment, and returns what it said.

    The moment is counted from a random acknowledgement, so that the kills fall into the work on
    a slow machine as on a fast one.
    """
    process.stdin.write(f"{seed}\n")
    process.stdin.flush()
    word, child = process.stdout.readline().split()
    assert word == "pid"
    said: list[str] = []
    for _ in range(chance.randrange(8)):
        said += process.stdout.readline().split()
    time.sleep(chance.uniform(0.0, 0.02))
    os.kill(int(child), signal.SIGKILL)
    while (line := process.stdout.readline()) != "dead\n":
        assert line, "the process that starts the children has ended"
        said += line.split()
    return said


def check(folder: Path, there: set[str], gone: set[str], checked: int) -> tuple[int, int]:
    """Everyone acknowledged is whole, and so is everyone else; nobody forgotten is back."""
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
    counted, stored = connection.execute(
        "SELECT (SELECT photos FROM counts), (SELECT COUNT(*) FROM photos)"
    ).fetchone()
    assert counted == stored
    connection.close()
    with Gallery.open(folder, model_id=MODEL) as gallery:
        assert not any(gallery.reader.find_by_name(name) for name in gone)
        for name in there:
            (person,) = gallery.reader.find_by_name(name)
            assert len(gallery.changes.vectors_of_people([person.id])) == PHOTOS
            for photo in gallery.reader.photos(person.id):
                assert gallery.reader.thumbnail(photo.id) is not None
    return max((row[0] for row in rows), default=checked), len(rows)


@pytest.mark.parametrize("kills", [150, pytest.param(1000, marks=pytest.mark.slow)])
def test_kills_lose_nothing_acknowledged_and_bring_nobody_back(tmp_path: Path, kills: int) -> None:
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
    forgotten: set[str] = set()
    checked = people = interrupted = forgetting = 0
    try:
        for seed in range(kills):
            said = kill_once(process, seed, chance)
            begun = {word[1:] for word in said if word[0] == "?"}
            gone = {word[1:] for word in said if word[0] == "-"}
            # Whoever was being forgotten may be there or not.
            there = {word for word in said if word[0] not in "?-"} - begun
            checked, new = check(tmp_path, there, gone, checked)
            # A person committed but not yet acknowledged is allowed; a lost one is not.
            assert new >= len(there)
            interrupted += bool(said)
            forgetting += begun != gone
            everyone |= there
            forgotten |= gone
            people += new
    finally:
        process.stdin.close()
        process.wait(timeout=120)
    connection = sqlite3.connect(tmp_path / "gallery.sqlite")
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        assert gallery.reader.count() == people
        left = {person.name for person in gallery.reader.iter_people()}
    assert everyone <= left
    assert not forgotten & left
    # The kills fell into the work, not before it, and into both kinds of it.
    assert interrupted > kills // 2
    assert forgetting > kills // 50
