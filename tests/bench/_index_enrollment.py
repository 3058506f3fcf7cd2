"""Durable enrollments against plain SQLite, for the bench of the index."""

from __future__ import annotations

import sqlite3
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from index.engines.open import open_index
from index.engines.sync import rebuild
from index.gallery import Gallery
from index.types import NewPhoto
from model.types import Embedding
from tests.bench._index_data import PHOTOS, Crowd


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
