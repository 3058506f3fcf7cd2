"""Several processes read and search while one writes."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event, Semaphore
from pathlib import Path

from index.engines.sync import compare
from index.gallery import Gallery
from index.search import PeopleSearch
from tests.index.helpers import DIMENSION, MODEL, Faces, matches

WRITES = 60


def read_along(folder: str, ready: Semaphore, stop: Event, results: multiprocessing.Queue) -> None:
    try:
        faces = Faces()
        gallery = Gallery.open(folder, model_id=MODEL)
        search = PeopleSearch.open(gallery, dimension=DIMENSION)
        rounds, seen = 0, 0
        while not stop.is_set():
            people = gallery.reader.people(limit=1000)
            # A snapshot never shows half a person, and never fewer people than before.
            assert all(person.photos == 2 for person in people)
            assert len(people) >= seen
            seen = len(people)
            if people:
                last = people[-1]
                found = matches(search, faces.embedding(int(last.name)), 1)
                assert found[0].person_id == last.id
            rounds += 1
            if rounds == 4:
                ready.release()
        search.sync()
        results.put((rounds, len(search.index), compare(gallery, search.index).whole))
    except BaseException as error:
        results.put(error)
        ready.release()
        raise


def test_readers_in_other_processes_follow_a_writer(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    ready, stop, results = context.Semaphore(0), context.Event(), context.Queue()
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        readers = [
            context.Process(
                target=read_along, args=(str(tmp_path), ready, stop, results), daemon=True
            )
            for _ in range(2)
        ]
        for reader in readers:
            reader.start()
        faces = Faces(people=WRITES)
        # Same seed, same first draws: the readers' faces are these people.
        faces.centres[: len(Faces().centres)] = Faces().centres
        for number in range(50):
            if number == 25:
                # The other half is written while they certainly read.
                assert all(ready.acquire(timeout=120) for _ in readers)
            gallery.enroll(str(number), faces.photos(number, 2))
            time.sleep(0.02)
        stop.set()
        answers = [results.get(timeout=180) for _ in readers]
        for reader in readers:
            reader.join(timeout=180)
    for answer in answers:
        assert not isinstance(answer, BaseException), answer
        rounds, held, whole = answer
        assert rounds > 3
        assert (held, whole) == (100, True)


def enroll_some(folder: str, number: int) -> None:
    faces = Faces(seed=number)
    with Gallery.open(folder, model_id=MODEL) as gallery:
        for n in range(15):
            gallery.enroll(f"{number}-{n}", faces.photos(n, 2))


def test_writers_in_several_processes_wait_for_each_other(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=enroll_some, args=(str(tmp_path), n)) for n in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(timeout=180)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        assert gallery.reader.counts().photos == 90
        assert len({person.name for person in gallery.reader.iter_people()}) == 45
