"""SQLite against PostgreSQL: enrollments a second and milliseconds a search, in one run.

``python -m tests.bench databases --photos 100000``. Both databases lie on the same disk; the server
is reached by its socket. Rounds alternate between the two.
"""

from __future__ import annotations

import argparse
import sqlite3
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from index.engines.open import open_index
from index.engines.sync import rebuild
from index.gallery import Gallery
from index.search import PeopleSearch
from index.types import NewPhoto
from model.types import Embedding
from tests.bench._index_data import PHOTOS, Crowd
from tests.index.postgresql_server import PostgresServer, find_programs

MODEL = "bench"
ROUNDS, SINGLES, BATCH = 5, 20, 400


def main(argv: Sequence[str]) -> int:
    """Prints both paces and their ratio."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench databases", description=__doc__)
    parser.add_argument("--photos", type=int, default=100_000, help="photos when searching")
    parser.add_argument("--queries", type=int, default=200)
    arguments = parser.parse_args(argv)
    programs = find_programs()
    if programs is None:
        print("no PostgreSQL server is installed")
        return 1
    server = PostgresServer(programs, Path("/tmp"))
    try:
        with tempfile.TemporaryDirectory(dir="/tmp") as folder:
            _measure(Path(folder), server.new_gallery(), arguments)
    finally:
        server.remove()
    return 0


def _measure(folder: Path, url: str, arguments: argparse.Namespace) -> None:
    places = {"SQLite": None, "PostgreSQL": url}
    galleries = {
        name: Gallery.open(folder / name, url=where, model_id=MODEL, dimension=512)
        for name, where in places.items()
    }
    people = arguments.photos // PHOTOS
    photos, queries = Crowd().rows(people * PHOTOS, arguments.queries)
    groups = photos.reshape(people, PHOTOS, -1)
    done = 0
    for kind, count in (("one by one", SINGLES), ("in batches", BATCH)):
        paces: dict[str, list[float]] = {name: [] for name in galleries}
        for _ in range(ROUNDS):
            for name, gallery in galleries.items():
                start = time.perf_counter()
                _enroll(gallery, groups, range(done, done + count), batch=kind == "in batches")
                paces[name].append(count / (time.perf_counter() - start))
            done += count
        _print(f"enrollments of {PHOTOS} photos a second, {kind}", paces)
    for gallery in galleries.values():
        for start in range(done, people, 1000):
            _enroll(gallery, groups, range(start, min(people, start + 1000)), batch=True)
    searches = {name: PeopleSearch.open(gallery) for name, gallery in galleries.items()}
    times: dict[str, list[float]] = {name: [] for name in galleries}
    for query in queries:
        for name, search in searches.items():
            start = time.perf_counter()
            search.search_many([Embedding(query, MODEL)], 5)
            times[name].append(1000 * (time.perf_counter() - start))
    _print(f"milliseconds a search among {people * PHOTOS:,} photos", times)
    for name in galleries:
        searches[name].close()
        galleries[name].close()


def _enroll(gallery: Gallery, groups: np.ndarray, numbers: range, *, batch: bool) -> None:
    def each() -> None:
        for number in numbers:
            vectors = groups[number].astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            new = [NewPhoto(Embedding(v, MODEL), f"{number}-{i}") for i, v in enumerate(vectors)]
            gallery.enroll(f"person {number}", new)

    if not batch:
        each()
        return
    with gallery.batch():
        each()


def _print(what: str, figures: dict[str, list[float]]) -> None:
    one, two = (median(each) for each in figures.values())
    print(f"{what}: SQLite {one:.2f}, PostgreSQL {two:.2f}, ratio {two / one:.2f}", flush=True)


def timed(action: Callable[[], object]) -> tuple[float, object]:
    """Seconds an action took, and its result."""
    start = time.perf_counter()
    result = action()
    return time.perf_counter() - start, result


def enrollment(crowd: Crowd, count: int) -> None:
    """Durable enrollments against plain inserts of the same bytes with the same settings."""
    people = count // PHOTOS
    photos, _ = crowd.rows(people * PHOTOS, 1)
    groups = photos.reshape(people, PHOTOS, -1)
    with tempfile.TemporaryDirectory() as folder:
        gallery = Gallery.open(Path(folder) / "g", model_id="bench")

        def enroll(number: int) -> None:
            vectors = groups[number].astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            gallery.enroll(
                f"person {number}",
                [NewPhoto(Embedding(v, "bench"), f"{number}-{i}") for i, v in enumerate(vectors)],
            )

        def enroll_all(start: int, end: int) -> None:
            with gallery.batch():
                for number in range(start, end):
                    enroll(number)

        raw = sqlite3.connect(Path(folder) / "raw.sqlite", isolation_level=None)
        raw.executescript(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
            "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);"
            "CREATE TABLE photos (id INTEGER PRIMARY KEY, person INTEGER, vector BLOB);"
        )

        def insert(start: int, end: int) -> None:
            raw.execute("BEGIN IMMEDIATE")
            for number in range(start, end):
                raw.execute("INSERT INTO people VALUES (?, ?)", (number, f"person {number}"))
                raw.executemany(
                    "INSERT INTO photos (person, vector) VALUES (?, ?)",
                    [(number, vector.tobytes()) for vector in groups[number]],
                )
            raw.execute("COMMIT")

        single = min(100, people // 4)
        print(f"\ndurable enrollments a second, {PHOTOS} photos each")
        one_raw, _ = timed(lambda: [insert(n, n + 1) for n in range(single)])
        one, _ = timed(lambda: [enroll(n) for n in range(single)])
        print(
            f"one by one       raw SQLite {single / one_raw:7.0f}   ours {single / one:7.0f}   "
            f"ratio {one_raw / one:.2f}"
        )
        many_raw, _ = timed(lambda: insert(single, people))
        many, _ = timed(lambda: enroll_all(single, people))
        left = people - single
        print(
            f"in one batch     raw SQLite {left / many_raw:7.0f}   ours {left / many:7.0f}   "
            f"ratio {many_raw / many:.2f}"
        )
        index = open_index(gallery)
        seconds, _ = timed(lambda: rebuild(gallery, index))
        print(
            f"index rebuilt from the gallery: {len(index)} photos in {seconds:.2f} s "
            f"({1e6 * seconds / len(index):.0f} us a photo)"
        )
        listing, _ = timed(lambda: gallery.reader.people(limit=10, query="no such name"))
        print(f"list filtered by name: {people} people in {listing:.2f} s")
        gallery.close()
