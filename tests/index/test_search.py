from __future__ import annotations

import threading

import numpy as np
import pytest

from index.engines.faiss import cache as faiss_cache
from index.engines.faiss.index import FaissIndex
from index.fusion import fuse
from index.gallery import Gallery
from index.search import PeopleSearch
from model.errors import BundleMismatch
from model.types import Embedding
from tests.index.helpers import DIMENSION, Faces, matches


@pytest.fixture
def search(gallery: Gallery, faces: Faces) -> PeopleSearch:
    for n in range(30):
        gallery.enroll(f"person {n}", faces.photos(n, 1 + n % 4))
    return PeopleSearch.open(gallery)


def test_right_person_is_found_and_strangers_are_unknown(
    search: PeopleSearch, faces: Faces
) -> None:
    for n in range(30):
        assert [match.name for match in matches(search, faces.embedding(n), 3)] == [f"person {n}"]
    for n in range(30, 50):
        assert matches(search, faces.embedding(n), 3, threshold=0.6) == []
        assert len(matches(search, faces.embedding(n), 3, threshold=-1)) == 3


@pytest.mark.parametrize("fusion", ["max", "template"])
def test_ranking_equals_scoring_everyone(search: PeopleSearch, faces: Faces, fusion: str) -> None:
    gallery = search.gallery
    query = faces.embedding(4)
    everyone = []
    for person in gallery.reader.iter_people():
        vectors = gallery.changes.vectors_of_people([person.id]).vectors
        everyone.append((fuse(query.vector, vectors, fusion), person.id))
    everyone.sort(reverse=True)
    (result,) = search.search_many([query], 30, fusion=fusion)
    assert [m.person_id for m in result.nearest] == [p for _, p in everyone]
    assert np.allclose([m.score for m in result.nearest], [s for s, _ in everyone], atol=1e-5)
    margins = [m.margin for m in result.nearest]
    assert margins[:-1] == pytest.approx(-np.diff([s for s, _ in everyone]), abs=1e-5)
    assert margins[-1] is None
    best = result.nearest[0]
    own = gallery.changes.vectors_of_people([best.person_id])
    assert int(best.photo_id) == own.ids[np.argmax(own.vectors.astype(np.float32) @ query.vector)]


def test_a_search_says_how_many_strangers_it_met(search: PeopleSearch, faces: Faces) -> None:
    photos = search.gallery.reader.counts().photos
    assert 30 < photos < 3 * 30
    (result,) = search.search_many([faces.embedding(0)])
    assert (result.people, result.strangers) == (30, photos)
    search.gallery.enroll("collector", faces.photos(40, 120))
    assert search.search_many([faces.embedding(0)])[0].strangers == 3 * 31
    assert search.search_many([faces.embedding(0)], fusion="max")[0].strangers == photos + 120


def test_people_with_many_photos_do_not_crowd_out_others(
    search: PeopleSearch, faces: Faces
) -> None:
    search.gallery.enroll("collector", faces.photos(40, 120))
    (result,) = search.search_many([faces.embedding(40)], 5)
    assert result.nearest[0].name == "collector"
    assert len({match.person_id for match in result.nearest}) == 5


def test_enrolled_is_found_at_once_and_forgotten_never_again(
    search: PeopleSearch, faces: Faces
) -> None:
    person = search.gallery.enroll("new", faces.photos(45, 2))
    assert matches(search, faces.embedding(45))[0].name == "new"
    search.gallery.rename(person.id, "renamed")
    assert matches(search, faces.embedding(45))[0].name == "renamed"
    search.gallery.forget(person.id)
    assert not matches(search, faces.embedding(45), threshold=0.6)


def test_many_queries_equal_single_ones(search: PeopleSearch, faces: Faces) -> None:
    queries = [faces.embedding(n) for n in range(20)]
    together = search.search_many(queries, 2)
    assert together == [search.search_many([query], 2)[0] for query in queries]
    assert search.search_many([], 2) == []


def test_empty_gallery_knows_nobody(gallery: Gallery, faces: Faces) -> None:
    search = PeopleSearch.open(gallery, dimension=DIMENSION)
    (result,) = search.search_many([faces.embedding(0)])
    assert (result.nearest, result.people, result.strangers) == ((), 0, 1)


def test_everyone_forgotten_during_a_search_is_nobody_found(
    gallery: Gallery, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = gallery.enroll("Ada", faces.photos(0))
    search = PeopleSearch.open(gallery)
    look = search.index.search

    def look_and_forget(queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        found = look(queries, k)
        gallery.forget(only.id)
        return found

    monkeypatch.setattr(search.index, "search", look_and_forget)
    assert search.search_many([faces.embedding(0)])[0].nearest == ()


def test_other_models_and_bad_arguments_are_refused(search: PeopleSearch, faces: Faces) -> None:
    with pytest.raises(BundleMismatch, match="model-b"):
        search.search_many([Embedding(faces.vector(0), "model-b")])
    with pytest.raises(ValueError, match="k must"):
        search.search_many([faces.embedding(0)], 0)


def test_cache_is_saved_on_close_and_after_many_changes(
    search: PeopleSearch, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = search.gallery.folder / "index.cache"
    monkeypatch.setattr("index.search._SAVE_AFTER", 10)
    search.gallery.enroll("many", faces.photos(40, 12))
    assert not cache.exists()
    search.sync()
    search._saving.join()
    assert cache.exists()
    written = cache.stat().st_mtime_ns
    search.gallery.enroll("one", faces.photos(41, 1))
    search.sync()
    search.close()
    assert cache.stat().st_mtime_ns > written


def test_a_cache_that_cannot_be_used_is_replaced_although_nothing_changed(
    search: PeopleSearch,
) -> None:
    gallery, cache = search.gallery, search.gallery.folder / "index.cache"
    search.close()
    cache.write_bytes(b"damaged")
    PeopleSearch.open(gallery).close()
    read = FaissIndex(DIMENSION)
    faiss_cache.load(read, cache, gallery.changes.cache_key())
    assert read.mark == gallery.changes.head()
    assert len(read) == gallery.reader.counts().photos


def test_a_cache_that_cannot_be_saved_does_not_fail_the_closing(
    search: PeopleSearch, caplog: pytest.LogCaptureFixture
) -> None:
    (search.gallery.folder / "index.cache").mkdir()
    search._unsaved = 1
    search.close()
    assert "not saved" in caplog.text


def test_searches_go_on_while_the_cache_is_written(
    search: PeopleSearch, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    writing, found = threading.Event(), threading.Event()
    write = faiss_cache.save

    def slow(*given: object) -> None:
        writing.set()
        assert found.wait(20), "the search waits for the write"
        write(*given)

    monkeypatch.setattr(faiss_cache, "save", slow)
    saving = threading.Thread(target=search.save)
    saving.start()
    assert writing.wait(20)
    looking = threading.Thread(target=search.search_many, args=([faces.embedding(3)],))
    looking.start()
    looking.join(10)
    in_time = not looking.is_alive()
    found.set()
    saving.join()
    looking.join()
    assert in_time
    assert (search.gallery.folder / "index.cache").exists()


def test_threads_search_while_others_enroll_and_forget(search: PeopleSearch, faces: Faces) -> None:
    failures: list[object] = []
    stop = threading.Event()
    query = faces.embedding(3)

    def look() -> None:
        while not stop.is_set():
            try:
                found = matches(search, query, 2)
                if not found or found[0].name != "person 3":
                    failures.append(found)
            except Exception as error:
                failures.append(error)

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for n in range(15):
        person = search.gallery.enroll(f"visitor {n}", faces.photos(40, 2))
        assert matches(search, faces.embedding(40))[0].person_id == person.id
        search.gallery.forget(person.id)
    stop.set()
    for thread in threads:
        thread.join()
    assert not failures
