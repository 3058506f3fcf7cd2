from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from index.engines import sync
from index.engines.faiss import cache as faiss_cache
from index.engines.faiss.cache import CACHE_FILE
from index.engines.faiss.index import FaissIndex
from index.engines.open import open_index
from index.engines.sync import catch_up, compare, save_cache
from index.gallery import Gallery
from index.locks import ReadWriteLock
from index.types import Mark
from model.errors import IndexUnavailable
from tests.index.helpers import DIMENSION, Faces

KEY = bytes(range(32))
MARK = Mark("g", 5, 77)


def made(count: int, limit: int | None, seed: int = 0) -> FaissIndex:
    index = FaissIndex(DIMENSION, exact_limit=limit, background=False)
    faces = Faces(people=count, seed=seed)
    if count:
        index.add(np.arange(1, count + 1), faces.centres, [])
    index.advance(MARK)
    return index


@pytest.mark.parametrize(("count", "limit"), [(0, None), (40, None), (200, 50), (130, 120)])
def test_index_comes_back_from_its_cache(tmp_path: Path, count: int, limit: int | None) -> None:
    index = made(count, limit)
    if count > 10:
        index.remove(np.arange(3, 9))
        index.add(np.array([1000]), Faces(seed=3).centres[:1], [])
    faiss_cache.save(index.content(), tmp_path / "c", KEY)
    loaded = FaissIndex(DIMENSION, exact_limit=limit, background=False)
    faiss_cache.load(loaded, tmp_path / "c", KEY)
    assert loaded.mark == MARK
    assert np.array_equal(loaded.ids(), index.ids())
    queries = Faces(seed=8).centres[:20]
    for mine, theirs in zip(index.search(queries, 7), loaded.search(queries, 7), strict=True):
        assert np.array_equal(mine, theirs)
    # It goes on living like any other.
    loaded.add(np.array([2000]), Faces(seed=4).centres[:1], [])
    loaded.remove(np.array([1, 2000]))
    assert len(loaded) == max(len(index) - 1, 0)
    assert [path.name for path in tmp_path.iterdir()] == ["c"]


def test_removed_vectors_are_not_in_what_is_saved() -> None:
    index = made(200, 50)
    index.remove(np.arange(1, 20))
    content = index.content()
    assert content.fast.dead == 0
    assert len(content.fast) + len(content.flat) == 181


def test_what_is_removed_while_the_cache_is_written_is_removed_again_after_reading(
    tmp_path: Path,
) -> None:
    index = made(200, 50)
    content = index.content()
    assert len(content.fast) > 50
    gone = content.fast.ids[:30]
    index.remove(gone)
    faiss_cache.save(content, tmp_path / "c", KEY)
    loaded = FaissIndex(DIMENSION, exact_limit=50, background=False)
    faiss_cache.load(loaded, tmp_path / "c", KEY)
    assert len(loaded) == 200
    loaded.remove(gone)
    assert np.array_equal(loaded.ids(), index.ids())
    queries = Faces(seed=8).centres[:20]
    for mine, theirs in zip(index.search(queries, 7), loaded.search(queries, 7), strict=True):
        assert np.array_equal(mine, theirs)


def test_a_gathering_that_ends_as_the_state_is_taken_leaves_every_id_at_its_vector(
    tmp_path: Path,
) -> None:
    begun, end = threading.Event(), threading.Event()

    class Slow(FaissIndex):
        def build(self, ids: np.ndarray, store: object) -> object:
            begun.set()
            assert end.wait(20)
            return super().build(ids, store)

    class EndsFirst(ReadWriteLock):
        @contextmanager
        def reading(self) -> Iterator[None]:
            index._gathering.join()
            with super().reading():
                yield

    index = Slow(DIMENSION, exact_limit=50)
    vectors = Faces(people=60).centres
    index.add(np.arange(1, 61), vectors, [])
    index.advance(MARK)
    assert begun.wait(20)
    index.remove(np.arange(1, 10))
    index._lock = EndsFirst()
    threading.Timer(0.2, end.set).start()
    faiss_cache.save(index.content(), tmp_path / "c", KEY)
    loaded = FaissIndex(DIMENSION)
    faiss_cache.load(loaded, tmp_path / "c", KEY)
    _, found = loaded.search(vectors[9:], 1)
    assert found[:, 0].tolist() == list(range(10, 61))


def test_bad_caches_are_refused_and_leave_the_index_alone(tmp_path: Path) -> None:
    path = tmp_path / "c"
    faiss_cache.save(made(100, 50).content(), path, KEY)
    good = path.read_bytes()
    index = made(3, None)

    def refused(reason: str, key: bytes = KEY, target: FaissIndex = index) -> None:
        with pytest.raises(IndexUnavailable, match=reason):
            faiss_cache.load(target, path, key)
        assert len(index) == 3

    refused("wrong", key=bytes(32))
    refused("vector length", target=FaissIndex(16))
    for cut in (0, 5, 30, len(good) // 2, len(good) - 1):
        path.write_bytes(good[:cut])
        refused("cannot be used")
    for spot in np.random.default_rng(0).integers(24, len(good), 10):
        path.write_bytes(good[:spot] + bytes([good[spot] ^ 255]) + good[spot + 1 :])
        refused("cannot be used")
    path.unlink()
    refused("no index cache")


@pytest.mark.parametrize("harm", ["missing", "damaged", "stale", "other gallery"])
def test_gallery_is_served_whatever_happened_to_the_cache(
    gallery: Gallery, faces: Faces, tmp_path: Path, harm: str, caplog: pytest.LogCaptureFixture
) -> None:
    for n in range(20):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    cache = gallery.folder / CACHE_FILE
    index = open_index(gallery)
    save_cache(gallery, index)
    if harm == "missing":
        cache.unlink()
    elif harm == "damaged":
        data = bytearray(cache.read_bytes())
        data[len(data) // 2] ^= 1
        cache.write_bytes(bytes(data))
    elif harm == "stale":
        gallery.enroll("new", faces.photos(21, 2))
        gallery.remove_photo("3")
        save_cache(gallery, index)
        gallery.enroll("newer", faces.photos(22, 2))
    else:
        # Right key, but the mark belongs to a log this gallery never had.
        index.advance(Mark("another", 40, 1))
        faiss_cache.save(index.content(), cache, gallery.changes.cache_key())
    with caplog.at_level(logging.INFO):
        again = open_index(gallery)
    assert compare(gallery, again).whole
    assert again.mark == gallery.changes.head()
    rebuilt = "rebuilt" in caplog.text
    assert rebuilt == (harm in ("missing", "damaged"))


def test_up_to_date_cache_is_used_without_reading_the_gallery(
    gallery: Gallery, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    gallery.enroll("p", faces.photos(0, 2))
    save_cache(gallery, open_index(gallery))
    monkeypatch.setattr(
        gallery.changes, "iter_embeddings", lambda: pytest.fail("walked the gallery")
    )
    assert len(open_index(gallery)) == 2


def test_erasure_during_a_save_voids_the_file(
    gallery: Gallery, faces: Faces, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The forgetting falls between the reading of the key and the writing of the file."""
    gone = gallery.enroll("gone", faces.photos(0, 2))
    gallery.enroll("stays", faces.photos(1, 2))
    index = open_index(gallery)
    real = faiss_cache.save

    def forget_then_save(content: object, path: Path, key: bytes) -> None:
        gallery.forget(gone.id)
        real(content, path, key)

    monkeypatch.setattr(sync.faiss_cache, "save", forget_then_save)
    save_cache(gallery, index)
    with pytest.raises(IndexUnavailable):
        faiss_cache.load(
            FaissIndex(DIMENSION), gallery.folder / CACHE_FILE, gallery.changes.cache_key()
        )


def test_index_that_stands_for_nothing_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no gallery change"):
        faiss_cache.save(FaissIndex(DIMENSION).content(), tmp_path / "c", KEY)


def test_gathering_in_the_background_loses_no_change(gallery: Gallery, faces: Faces) -> None:
    index = FaissIndex(DIMENSION, exact_limit=30)
    for n in range(40):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
        if n % 5 == 4:
            gallery.forget(gallery.reader.people(limit=1)[0].id)
        catch_up(gallery, index)
    index.close()
    assert compare(gallery, index).whole
    assert index.stats().kind == "rabitq"
