"""Forgotten means gone in PostgreSQL too: bytes are searched for in the data directories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from index.gallery import Gallery
from index.search import PeopleSearch
from model.errors import GalleryUnavailable, UnknownPerson, WrongKey
from tests.index.gallery.test_erasure import secrets_of, traces
from tests.index.helpers import MODEL, Faces, matches
from tests.index.postgresql_server import PostgresServer, start_server

psycopg = pytest.importorskip("psycopg", reason="needs requirements-postgresql.txt")

KEY = bytes(range(32))


def held(folder: Path) -> bytes:
    """Every byte of a data directory; the server must have written its buffers."""
    return b"\0".join(p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file())


def checkpoint(server: PostgresServer) -> None:
    with psycopg.connect(server.url("postgres", "admin"), autocommit=True) as connection:
        connection.execute("CHECKPOINT")


@pytest.fixture(scope="module")
def servers() -> Iterator[tuple[PostgresServer, PostgresServer]]:
    """One for the gallery, one for its secrets."""
    both = start_server(), start_server()
    yield both
    for server in both:
        server.remove()


@pytest.mark.parametrize("key", [None, KEY], ids=["plain", "sealed"])
def test_no_table_holds_a_forgotten_person(
    servers: tuple[PostgresServer, PostgresServer],
    tmp_path: Path,
    faces: Faces,
    key: bytes | None,
) -> None:
    server = servers[0]
    photos = {n: faces.photos(n) for n in range(10)}
    with Gallery.open(tmp_path, url=server.new_gallery(), model_id=MODEL, key=key) as gallery:
        people = [gallery.enroll(f"Person Number {n}", photos[n]) for n in range(10)]
        keys = secrets_of(gallery, people[7].id)
        checkpoint(server)
        assert all(secret in held(server.data / "base") for secret in keys)
        assert gallery.forget(people[7].id).complete
        checkpoint(server)
        after = held(server.data / "base")
        assert [secret for secret in keys if secret in after] == []
        # The write-ahead log keeps old secrets for a while, but never anything in the clear.
        everything = held(server.data)
        assert [t for t in traces("Person Number 7", photos[7]) if t in everything] == []


def test_an_erasure_is_not_complete_while_an_older_transaction_sees_the_rows(
    servers: tuple[PostgresServer, PostgresServer], tmp_path: Path, faces: Faces
) -> None:
    """Not even if that transaction has nothing to do with the gallery's tables."""
    server, place = servers[0], {"url": servers[0].new_gallery(), "model_id": MODEL}
    with Gallery.open(tmp_path, **place) as gallery:
        people = [gallery.enroll(f"Person {n}", faces.photos(n)) for n in range(3)]
        keys = secrets_of(gallery, people[1].id)
        with psycopg.connect(server.url("postgres", "admin")) as other:
            other.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            other.execute("SELECT 1")
            assert not gallery.forget(people[1].id).complete
        assert gallery.forget(people[2].id).complete
        checkpoint(server)
        after = held(server.data / "base")
        assert [secret for secret in keys if secret in after] == []


@pytest.mark.parametrize("number", [3, 4], ids=["in the middle", "last"])
def test_the_store_of_secrets_keeps_no_bytes_of_a_forgotten_person(
    servers: tuple[PostgresServer, PostgresServer], tmp_path: Path, faces: Faces, number: int
) -> None:
    main, store = servers
    place = {"url": main.new_gallery(), "secrets_url": store.new_gallery(), "model_id": MODEL}
    with Gallery.open(tmp_path, **place) as gallery:
        people = [gallery.enroll(f"Person {n}", faces.photos(n)) for n in range(5)]
        values = gallery._facts.vault.store.get(secrets_of(gallery, people[number].id))
        checkpoint(store)
        assert all(value in held(store.data / "base") for value in values)
        assert gallery.forget(people[number].id).complete
        checkpoint(store)
        assert [value for value in values if value in held(store.data / "base")] == []


def test_a_backup_does_not_bring_back_who_was_forgotten_since(
    servers: tuple[PostgresServer, PostgresServer], tmp_path: Path, faces: Faces
) -> None:
    main, store = servers
    place = {"url": main.new_gallery(), "secrets_url": store.new_gallery(), "model_id": MODEL}
    with Gallery.open(tmp_path / "a", **place) as gallery:
        people = [gallery.enroll(f"Person {n}", faces.photos(n)) for n in range(5)]
        handles = secrets_of(gallery, people[3].id)
        values = gallery._facts.vault.store.get(handles)
        assert len(set(values)) == 4
    main.stop()
    shutil.copytree(main.data, main.folder / "backup", copy_function=copy_for_all)
    assert not any(value in held(main.data) for value in values), "not even in its log"
    main.start()
    with Gallery.open(tmp_path / "a", **place) as gallery:
        assert gallery.forget(people[3].id).complete
        assert gallery._facts.vault.store.get(handles) == [None] * 4
    main.stop()
    shutil.rmtree(main.data)
    (main.folder / "backup").rename(main.data)
    main.own(main.data)
    main.start()
    with Gallery.open(tmp_path / "restored", **place) as gallery:
        with pytest.raises(UnknownPerson):
            gallery.reader.get(people[3].id)
        names = [person.name for person in gallery.reader.iter_people()]
        assert names == ["Person 0", "Person 1", "Person 2", "Person 4"]
        search = PeopleSearch.open(gallery)
        assert len(search.index) == 12
        assert matches(search, faces.embedding(3), threshold=0.6) == []
        assert [match.name for match in matches(search, faces.embedding(4))] == ["Person 4"]
        search.close()


def copy_for_all(source: str, target: str) -> None:
    shutil.copyfile(source, target)
    os.chmod(target, 0o600)


def test_an_erasure_the_store_did_not_hear_of_is_finished_later(
    servers: tuple[PostgresServer, PostgresServer],
    tmp_path: Path,
    faces: Faces,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = {"url": servers[0].new_gallery(), "secrets_url": servers[1].new_gallery()}
    with Gallery.open(tmp_path, model_id=MODEL, **place) as gallery:
        person = gallery.enroll("Ada", faces.photos(0))
        handles = secrets_of(gallery, person.id)
        store = gallery._facts.vault.store

        def away(_: object) -> None:
            raise GalleryUnavailable("away")

        monkeypatch.setattr(store, "drop", away)
        assert not gallery.forget(person.id).complete
        assert None not in store.get(handles)
    with Gallery.open(tmp_path, model_id=MODEL, **place) as gallery:
        assert gallery._facts.vault.store.get(handles) == [None] * 4


def test_a_gallery_is_opened_with_the_store_it_was_started_with(
    servers: tuple[PostgresServer, PostgresServer], tmp_path: Path
) -> None:
    url, store = servers[0].new_gallery(), servers[1].new_gallery()
    Gallery.open(tmp_path, url=url, secrets_url=store, model_id=MODEL).close()
    with pytest.raises(WrongKey, match="store"):
        Gallery.open(tmp_path, url=url, model_id=MODEL)
    with pytest.raises(ValueError, match="PostgreSQL"):
        Gallery.open(tmp_path, secrets_url=store, model_id=MODEL)
