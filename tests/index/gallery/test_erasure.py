"""Forgotten means gone: the bytes are searched for in every file of the data folder."""

from __future__ import annotations

import multiprocessing
import sqlite3
from pathlib import Path

import numpy as np
import pytest

from index.gallery import Gallery
from index.search import PeopleSearch
from index.types import NewPhoto
from tests.index.helpers import MODEL, Faces, matches

KEY = bytes(range(32))


def content(folder: Path) -> bytes:
    return b"\0".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def secrets_of(gallery: Gallery, person_id: str) -> list[bytes]:
    """The stored secrets without which a person's sealed records are noise."""
    with gallery._db.read() as connection:
        number = connection.execute(
            "SELECT number FROM people WHERE id = ?", (person_id,)
        ).fetchone()[0]
        rows = connection.execute(
            "SELECT value FROM secrets WHERE id IN (SELECT secret FROM people WHERE number = ? "
            "UNION SELECT secret FROM photos WHERE person = ?)",
            (number, number),
        )
        return [row[0] for row in rows]


def profile_of(gallery: Gallery, person_id: str) -> bytes:
    """A person's sealed profile as stored."""
    with gallery._db.read() as connection:
        found = connection.execute("SELECT profile FROM people WHERE id = ?", (person_id,))
        return found.fetchone()[0]


def traces(name: str, photos: list[NewPhoto]) -> list[bytes]:
    found = [name.encode()]
    for photo in photos:
        vector = photo.embedding.vector
        found += [vector.tobytes()[:24], vector.astype("<f2").tobytes()[:24]]
        found += [photo.thumbnail[-48:], photo.content_hash.encode()]
        found += [photo.source_name.encode(), photo.note.encode()]
    return found


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_no_file_holds_a_forgotten_person(tmp_path: Path, faces: Faces, key: bytes | None) -> None:
    photos = {n: faces.photos(n) for n in range(30)}
    with Gallery.open(tmp_path, model_id=MODEL, key=key) as gallery:
        people = {n: gallery.enroll(f"Person Number {n}", photos[n]) for n in range(30)}
        search = PeopleSearch.open(gallery)
        search.save()
        keys = secrets_of(gallery, people[7].id)
        assert len(keys) == 4
        assert all(secret in content(tmp_path) for secret in keys)
        assert (tmp_path / "index.cache").exists()
        cache_before = (tmp_path / "index.cache").read_bytes()

        erased = gallery.forget(people[7].id)

        assert (erased.people, erased.photos, erased.thumbnails) == (1, 3, 3)
        assert not (tmp_path / "index.cache").exists()
        assert erased.complete
        after = content(tmp_path)
        for secret in keys:
            assert secret not in after
        for trace in traces("Person Number 7", photos[7]):
            assert trace not in after
        query = photos[7][0].embedding
        names = [m.name for m in matches(search, query, 30, threshold=-1)]
        assert len(names) == 29
        assert "Person Number 7" not in names
        search.close()
        after = content(tmp_path)
        for trace in keys + traces("Person Number 7", photos[7]):
            assert trace not in after

    # A copy of the old cache put back is void: its key is gone.
    (tmp_path / "index.cache").write_bytes(cache_before)
    with Gallery.open(tmp_path, model_id=MODEL, key=key) as gallery:
        search = PeopleSearch.open(gallery)
        assert len(search.index) == 87
        names = [m.name for m in matches(search, query, 30, threshold=-1)]
        assert "Person Number 7" not in names
        search.close()


def test_plain_vectors_never_reach_the_disk_even_before_forgetting(
    gallery: Gallery, faces: Faces
) -> None:
    photos = faces.photos(0)
    gallery.enroll("Plain Name", photos)
    search = PeopleSearch.open(gallery)
    search.save()
    held = content(gallery.folder)
    for trace in traces("Plain Name", photos):
        assert trace not in held


def test_secrets_leave_no_copy_however_the_pages_were_shuffled(
    tmp_path: Path, faces: Faces
) -> None:
    """Hundreds of random inserts, renames and erasures; SQLite moves cells between pages."""
    random = np.random.default_rng(5)
    gone: list[bytes] = []
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        alive: list[str] = []
        for step in range(250):
            action = random.integers(4)
            if action < 2 or len(alive) < 5:
                photos = faces.photos(int(random.integers(50)), int(random.integers(1, 4)))
                alive.append(
                    gallery.enroll(f"n{step} " + "x" * int(random.integers(150)), photos).id
                )
            elif action == 2:
                person = alive[random.integers(len(alive))]
                gone.append(secrets_of(gallery, person)[0])
                gallery.rename(person, f"r{step} " + "y" * int(random.integers(150)))
            else:
                person = alive.pop(int(random.integers(len(alive))))
                gone += secrets_of(gallery, person)
                assert gallery.forget(person).complete
        gallery.forget(alive.pop())
        held = content(tmp_path)
        assert len(gone) > 100
        assert [secret for secret in gone if secret in held] == []


def test_removing_a_photo_and_merging_erase_too(tmp_path: Path, faces: Faces) -> None:
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        one = gallery.enroll("First Name", faces.photos(0))
        two = gallery.enroll("Second Name", faces.photos(0))
        profile = secrets_of(gallery, two.id)[0]
        gallery.merge(one.id, two.id)
        assert profile not in content(tmp_path)
        photo = gallery.reader.photos(one.id)[0].id
        with gallery._db.read() as connection:
            secret = connection.execute(
                "SELECT value FROM secrets WHERE id = (SELECT secret FROM photos WHERE id = ?)",
                (photo,),
            ).fetchone()[0]
        assert secret in content(tmp_path)
        assert gallery.remove_photo(photo).complete
        assert secret not in content(tmp_path)


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_a_new_name_erases_the_old_one(tmp_path: Path, faces: Faces, key: bytes | None) -> None:
    with Gallery.open(tmp_path, model_id=MODEL, key=key) as gallery:
        person = gallery.enroll("Old Name", faces.photos(0))
        PeopleSearch.open(gallery).save()
        cache = (tmp_path / "index.cache").read_bytes()

        old = [secrets_of(gallery, person.id)[0], profile_of(gallery, person.id)]
        assert all(trace in content(tmp_path) for trace in old)
        gallery.rename(person.id, "New Name")
        assert [trace for trace in old if trace in content(tmp_path)] == []

        old = [secrets_of(gallery, person.id)[0], profile_of(gallery, person.id)]
        with gallery.batch():
            gallery.update(person.id, metadata={"room": 12}, consent="by letter")
        assert [trace for trace in old if trace in content(tmp_path)] == []

        # The cache holds no names, so it need not be built again.
        assert (tmp_path / "index.cache").read_bytes() == cache
        assert len(PeopleSearch.open(gallery).index) == 3


def test_a_new_name_does_not_hide_a_waiting_erasure(
    tmp_path: Path, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        gone = gallery.enroll("Ada", faces.photos(0))
        kept = gallery.enroll("Bob", faces.photos(1))
        PeopleSearch.open(gallery).save()
        keys = secrets_of(gallery, gone.id)
        with monkeypatch.context() as patch:
            patch.setattr(gallery._erasure, "finish", lambda: False)
            gallery.forget(gone.id)
        gallery.rename(kept.id, "Bill")
        assert not (tmp_path / "index.cache").exists()
        assert all(secret not in content(tmp_path) for secret in keys)


def test_an_erasure_begun_while_another_ends_is_not_forgotten(
    tmp_path: Path, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        first, second = (gallery.enroll(name, faces.photos(n)) for n, name in enumerate("AB"))
        keys = secrets_of(gallery, second.id)
        other = Gallery.open(tmp_path, model_id=MODEL)
        truncate = gallery._db.scrub

        def truncate_then_forget() -> bool:
            done = truncate()
            with monkeypatch.context() as patch:
                patch.setattr(other._erasure, "finish", lambda: False)
                other.forget(second.id)
            return done

        monkeypatch.setattr(gallery._db, "scrub", truncate_then_forget)
        gallery.forget(first.id)
        other._erasure.finish()
        assert all(secret not in content(tmp_path) for secret in keys)
        other.close()


def test_erasure_held_up_by_a_reader_is_reported_and_finished_later(
    tmp_path: Path, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        person = gallery.enroll("Ada", faces.photos(0))
        keys = secrets_of(gallery, person.id)
        truncate = gallery._db.scrub
        monkeypatch.setattr(gallery._db, "scrub", lambda: truncate(timeout=0.1))
        reader = sqlite3.connect(tmp_path / "gallery.sqlite", isolation_level=None)
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM people").fetchall()
        assert not gallery.forget(person.id).complete
        reader.execute("COMMIT")
        reader.close()
        # Process ends here without another word.
    Gallery.open(tmp_path, model_id=MODEL).close()
    assert all(secret not in content(tmp_path) for secret in keys)


def _forget_and_die(folder: str, person_id: str) -> None:
    import os
    import signal

    gallery = Gallery.open(folder, model_id=MODEL)
    gallery._erasure.finish = lambda: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore
    gallery.forget(person_id)


def test_killed_between_commit_and_cleaning_the_next_start_cleans(
    tmp_path: Path, faces: Faces
) -> None:
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        person = gallery.enroll("Ada", faces.photos(0))
        gallery.enroll("Bob", faces.photos(1))
        keys = secrets_of(gallery, person.id)
        PeopleSearch.open(gallery).save()
    process = multiprocessing.get_context("spawn").Process(
        target=_forget_and_die, args=(str(tmp_path), person.id)
    )
    process.start()
    process.join()
    assert process.exitcode == -9
    assert (tmp_path / "index.cache").exists()
    with Gallery.open(tmp_path, model_id=MODEL) as gallery:
        assert [p.name for p in gallery.reader.people()] == ["Bob"]
        assert not (tmp_path / "index.cache").exists()
        held = content(tmp_path)
        assert all(secret not in held for secret in keys)
