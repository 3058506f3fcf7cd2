"""What only PostgreSQL can get wrong: several servers, restarts, rights, announcements."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest

from index.gallery import Gallery
from index.search import PeopleSearch
from model.errors import GalleryError, GalleryUnavailable
from tests.index.conftest import Place
from tests.index.helpers import DIMENSION, MODEL, Faces, matches
from tests.index.postgresql_server import PostgresServer
from tests.waiting import eventually

psycopg = pytest.importorskip("psycopg", reason="needs requirements-postgresql.txt")


@pytest.fixture
def place(postgresql: PostgresServer, tmp_path: Path) -> Place:
    return Place(tmp_path / "one", postgresql.new_gallery())


@pytest.fixture
def two_servers(place: Place, tmp_path: Path) -> Iterator[tuple[Gallery, Gallery]]:
    with place.open() as one, Place(tmp_path / "two", place.url).open() as two:
        yield one, two


def test_ten_servers_that_start_at_once_migrate_once(place: Place) -> None:
    with ThreadPoolExecutor(10) as pool:
        opened = list(pool.map(lambda _: place.open(), range(10)))
    assert len({gallery.gallery_id for gallery in opened}) == 1
    with psycopg.connect(place.url) as connection:
        assert connection.execute("SELECT version FROM gallery_schema").fetchall() == [
            (1,),
            (2,),
            (3,),
        ]
    for gallery in opened:
        gallery.close()


def test_a_newer_schema_is_refused(place: Place) -> None:
    place.open().close()
    with psycopg.connect(place.url) as connection:
        connection.execute("INSERT INTO gallery_schema VALUES (99)")
    with pytest.raises(GalleryError, match="newer"):
        place.open()


def test_two_servers_write_by_turns_and_the_log_has_no_gaps(
    two_servers: tuple[Gallery, Gallery],
) -> None:
    def enroll(number: int) -> None:
        faces = Faces(seed=number)
        for n in range(10):
            two_servers[number % 2].enroll(f"{number} {n}", faces.photos(n, 2))

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(enroll, range(4)))
    for gallery in two_servers:
        assert gallery.reader.counts().photos == 80
        assert [change.seq for change in gallery.changes.since(0)] == list(range(1, 81))


def test_another_server_hears_of_changes_without_being_asked(
    two_servers: tuple[Gallery, Gallery], faces: Faces
) -> None:
    one, two = two_servers
    search = PeopleSearch.open(two, dimension=DIMENSION)
    person = one.enroll("Ada", faces.photos(0))
    assert eventually(lambda: search.behind() == 0 and len(search.index) == 3)
    assert [match.name for match in matches(search, faces.embedding(0))] == ["Ada"]
    one.forget(person.id)
    assert eventually(lambda: len(search.index) == 0)
    search.close()


def test_a_restart_of_the_database_loses_nothing_and_is_survived(
    postgresql: PostgresServer, place: Place, faces: Faces
) -> None:
    with place.open() as gallery:
        search = PeopleSearch.open(gallery, dimension=DIMENSION)
        person = gallery.enroll("Ada", faces.photos(0))
        postgresql.stop("immediate")
        with pytest.raises(GalleryUnavailable):
            gallery.reader.count()
        postgresql.start()

        def answers() -> bool:
            try:
                return gallery.reader.get(person.id) == person
            except GalleryUnavailable:
                return False

        assert eventually(answers, 30)
        with Place(place.folder / "other", place.url).open() as other:
            other.enroll("Bob", faces.photos(1))
        assert eventually(lambda: len(search.index) == 6), "it listens again"
        search.close()


def test_a_listener_outlives_any_error_of_its_action(place: Place) -> None:
    with place.open() as gallery:
        called: list[int] = []

        def act() -> None:
            called.append(len(called))
            if len(called) == 2:
                raise RuntimeError("a fault of the action")

        listener = gallery.changes.listen(act)
        assert eventually(lambda: len(called) == 1)
        gallery.enroll("Ada", Faces().photos(0))
        assert eventually(lambda: len(called) >= 3), "it connects again and catches up"
        listener.close()


def test_a_database_that_hangs_is_noticed(
    postgresql: PostgresServer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connections are there, and nothing comes back: as when a network is cut."""
    monkeypatch.setattr("index.postgresql.listener.QUIET_SECONDS", 1.5)
    with place.open() as gallery, psycopg.connect(postgresql.url("postgres", "admin")) as admin:
        listener = gallery.changes.listen(lambda: None)
        time.sleep(3)
        assert listener.deaf_seconds == 0
        found = admin.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'faces'").fetchall()
        for (pid,) in found:
            os.kill(pid, signal.SIGSTOP)
        try:
            assert eventually(lambda: listener.deaf_seconds > 2)
        finally:
            for (pid,) in found:
                os.kill(pid, signal.SIGCONT)
        assert eventually(lambda: listener.deaf_seconds == 0)
        listener.close()


def test_a_long_outage_of_the_database_delays_nothing_after_it(
    postgresql: PostgresServer, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool's own attempts come less and less often."""
    monkeypatch.setattr("index.postgresql.pool.RECONNECT_SECONDS", 0.5)
    with place.open() as gallery:
        postgresql.stop("immediate")
        end = time.monotonic() + 8
        while time.monotonic() < end:
            with pytest.raises(GalleryUnavailable):
                gallery.reader.count()
        postgresql.start()
        started = time.monotonic()

        def answers() -> bool:
            try:
                return gallery.reader.count() == 0
            except GalleryUnavailable:
                return False

        assert eventually(answers, 30)
        assert time.monotonic() - started < 3


def test_a_commit_waits_for_the_disk_whatever_the_roles_default(
    postgresql: PostgresServer, place: Place
) -> None:
    with psycopg.connect(postgresql.url("postgres", "admin")) as admin:
        admin.execute("ALTER ROLE faces SET synchronous_commit = off")
    try:
        with place.open() as gallery, gallery._db.read() as connection:
            (setting,) = connection.execute(
                "SELECT current_setting('synchronous_commit')"
            ).fetchone()
            assert setting == "on"
    finally:
        with psycopg.connect(postgresql.url("postgres", "admin")) as admin:
            admin.execute("ALTER ROLE faces RESET synchronous_commit")


def test_a_writer_waits_only_so_long_for_another(
    place: Place, tmp_path: Path, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    from index.postgresql.pool import SESSION

    monkeypatch.setitem(SESSION, "lock_timeout", "50ms")
    writing, done = threading.Event(), threading.Event()

    def hold() -> None:
        with one.batch():
            writing.set()
            done.wait(30)

    with place.open() as one, Place(tmp_path / "two", place.url).open() as two:
        holder = threading.Thread(target=hold)
        holder.start()
        assert writing.wait(10)
        with pytest.raises(GalleryUnavailable, match="55P03"):
            two.enroll("Ada", faces.photos(0))
        assert two.reader.count() == 0, "readers do not wait"
        done.set()
        holder.join()
        assert two.enroll("Ada", faces.photos(0)).photos == 3


def test_an_erasure_and_a_batch_that_reads_do_not_wait_for_each_other(
    two_servers: tuple[Gallery, Gallery], faces: Faces
) -> None:
    """A batch reads through other connections too, as the enrollment checks do."""
    one, two = two_servers
    person = one.enroll("Ada", faces.photos(0))
    with ThreadPoolExecutor(1) as pool:
        with one.batch():
            assert one.reader.find_by_name("Ada") == [person]
            erasing = pool.submit(two._db.scrub)
            # The rewrite of the table now waits, here or at the table.
            assert eventually(lambda: waiting(one) == 1)
            started = time.monotonic()
            assert len(one.changes.vectors_of_people([person.id])) == 3
            assert time.monotonic() - started < 5
        assert erasing.result(20)


def waiting(gallery: Gallery) -> int:
    """How many of the database's sessions wait for a lock."""
    with gallery._db.read(committed=True) as connection:
        return connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()[0]


def test_an_erasure_keeps_nobody_waiting_for_a_long_reader(
    two_servers: tuple[Gallery, Gallery], faces: Faces
) -> None:
    """A dump reads for minutes: what is left is erased later, and searches go on meanwhile."""
    one, two = two_servers
    person = one.enroll("Ada", faces.photos(0))
    with psycopg.connect(one._db._pool.conninfo) as dump, ThreadPoolExecutor(1) as pool:
        dump.execute("SELECT count(*) FROM secrets")
        forgetting = pool.submit(two.forget, person.id)
        assert eventually(lambda: waiting(one) == 1)
        started = time.monotonic()
        assert one.changes.head().seq == 6
        assert len(one.changes.vectors_of([1])) == 0
        assert time.monotonic() - started < 5
        assert not forgetting.result(20).complete
        assert one.enroll("Bob", faces.photos(1)).photos == 3, "the lock was given back"
    assert one.forget(one.reader.find_by_name("Bob")[0].id).complete


def test_a_writer_that_hangs_does_not_keep_the_others_out(
    place: Place, tmp_path: Path, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It loses its transaction, and what it had not been told is stored is not."""
    from index.postgresql.pool import SESSION

    assert SESSION["idle_in_transaction_session_timeout"] == "2min"
    monkeypatch.setitem(SESSION, "idle_in_transaction_session_timeout", "500ms")
    with place.open() as one, Place(tmp_path / "two", place.url).open() as two:

        def hang() -> None:
            with one.batch():
                one.enroll("Ada", faces.photos(0))
                assert two.enroll("Bob", faces.photos(1)).photos == 3

        with pytest.raises(GalleryUnavailable):
            hang()
        assert [person.name for person in one.reader.people()] == ["Bob"]


def test_a_batch_in_which_a_statement_failed_is_not_acknowledged(
    place: Place, faces: Faces
) -> None:
    """PostgreSQL answers COMMIT with a rollback then, and without an error."""

    def rename() -> None:
        with gallery.batch():
            gallery.rename(person.id, "Eve")
            with gallery._db.read() as connection, suppress(psycopg.Error):
                connection.execute("SELECT 1 / 0")

    with place.open() as gallery:
        person = gallery.enroll("Ada", faces.photos(0))
        with pytest.raises(GalleryUnavailable, match="25P02"):
            rename()
        assert gallery.reader.get(person.id) == person
        assert gallery.rename(person.id, "Bob").name == "Bob"


@pytest.mark.parametrize(
    ("change", "state"),
    [
        (("@/postgres", "@/nowhere"), "3D000|08000"),
        (("faces@", "nobody_known@"), "28000|08000"),
        (("host=", "host=/nowhere"), "08000"),
    ],
)
def test_errors_name_a_code_and_not_the_address(
    place: Place, change: tuple[str, str], state: str
) -> None:
    wrong = Place(place.folder, place.url.replace(*change, 1))
    with pytest.raises(GalleryUnavailable, match=state) as caught:
        wrong.open()
    assert "host" not in caught.value.message
    assert "/" not in caught.value.message


def test_a_role_without_rights_is_told_so(postgresql: PostgresServer, place: Place) -> None:
    with psycopg.connect(postgresql.url("postgres", "admin"), autocommit=True) as admin:
        admin.execute("CREATE ROLE guest LOGIN")
    with pytest.raises(GalleryUnavailable, match=r"42501|3F000"):
        Place(place.folder, place.url.replace("faces@", "guest@", 1)).open()


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "index.gallery.postgresql", raising=False)
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(GalleryUnavailable, match=r"requirements-postgresql\.txt"):
        Gallery.open(tmp_path, url="postgresql://user@host/faces", model_id=MODEL)


@pytest.mark.parametrize("url", ["mysql://host/faces", "postgresql://host", "faces"])
def test_other_addresses_are_refused(tmp_path: Path, url: str) -> None:
    with pytest.raises(ValueError, match="postgresql://"):
        Gallery.open(tmp_path, url=url, model_id=MODEL)
