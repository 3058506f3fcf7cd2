"""What is particular to Milvus; the common contract is in test_contract.py."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from index.__main__ import main
from index.engines.milvus import client as milvus_client
from index.engines.milvus import index as milvus_index
from index.engines.milvus.index import MilvusIndex
from index.engines.open import discard, open_index
from index.engines.sync import compare
from index.gallery import Gallery
from index.search import PeopleSearch
from index.types import Mark, Vectors
from model.errors import BundleMismatch, IndexUnavailable
from tests.index.helpers import DIMENSION, MODEL, Faces, matches


@pytest.fixture
def url(tmp_path: Path) -> str:
    pytest.importorskip("milvus_lite", reason="Milvus Lite is not installed")
    return f"milvus-lite:{tmp_path}/lite.db?index=FLAT"


@pytest.fixture(autouse=True)
def asked_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose a collection is, which else a process believes for a second."""
    monkeypatch.setattr(milvus_index, "OWNER_SECONDS", 0.0)


@pytest.fixture
def other(tmp_path: Path, faces: Faces) -> Iterator[Gallery]:
    """A second gallery, with photo numbers the first one has as well."""
    with Gallery.open(tmp_path / "other", model_id=MODEL) as opened:
        opened.enroll("stranger", faces.photos(30, 2))
        yield opened


def test_people_are_found_through_milvus(gallery: Gallery, faces: Faces, url: str) -> None:
    for n in range(12):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    search = PeopleSearch.open(gallery, url)
    assert matches(search, faces.embedding(5))[0].name == "p5"
    gallery.enroll("late", faces.photos(20, 1))
    assert matches(search, faces.embedding(20))[0].name == "late"
    one, two = gallery.reader.find_by_name("p1")[0], gallery.reader.find_by_name("p2")[0]
    gallery.merge(one.id, two.id)
    gallery.forget(gallery.reader.find_by_name("p5")[0].id)
    assert not matches(search, faces.embedding(5), threshold=0.6)
    assert compare(gallery, search.index).whole
    search.close()
    again = open_index(gallery, url)
    assert again.mark == gallery.changes.head()
    assert compare(gallery, again).whole
    again.close()
    discard(gallery, url)
    assert not (gallery.folder / "index.cache").exists()


def test_a_collection_in_use_is_refused_to_another_gallery(
    gallery: Gallery, other: Gallery, faces: Faces, url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for n in range(4):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    search = PeopleSearch.open(gallery, url)
    with pytest.raises(IndexUnavailable, match=r"another gallery.*python -m index rebuild"):
        open_index(other, url)
    with pytest.raises(IndexUnavailable, match="another gallery"):
        discard(other, url)
    for command in ("stats", "sync"):
        assert main([command, "--data", str(other.folder), "--index", url]) == 1
        assert "another gallery" in capsys.readouterr().err
    assert matches(search, faces.embedding(3))[0].name == "p3"
    gallery.enroll("late", faces.photos(20, 1))
    assert matches(search, faces.embedding(20))[0].name == "late"
    assert compare(gallery, search.index).whole
    search.close()


@pytest.mark.parametrize("command", [["rebuild", "--index"], ["move", "--to"]])
def test_a_command_takes_a_collection_over_and_the_former_owner_is_told(
    gallery: Gallery, other: Gallery, faces: Faces, url: str, command: list[str]
) -> None:
    for n in range(4):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    search = PeopleSearch.open(gallery, url)
    assert main([command[0], "--data", str(other.folder), command[1], url]) == 0
    with pytest.raises(IndexUnavailable, match="another gallery"):
        matches(search, faces.embedding(3))
    gallery.enroll("late", faces.photos(20, 1))
    with pytest.raises(IndexUnavailable, match="another gallery"):
        search.sync()
    taken = PeopleSearch.open(other, url)
    assert compare(other, taken.index).whole
    assert matches(taken, faces.embedding(30))[0].name == "stranger"
    taken.close()
    # Once its collection is given back, the process that was told goes on as before.
    assert main(["rebuild", "--data", str(gallery.folder), "--index", url]) == 0
    assert matches(search, faces.embedding(20))[0].name == "late"
    search.close()


def test_a_mark_of_another_gallery_is_not_overwritten(url: str) -> None:
    first = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)
    first.rebuild([], Mark("first", 3, 33))
    second = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)
    second.rebuild([], Mark("second", 1, 11))
    with pytest.raises(IndexUnavailable, match="another gallery"):
        first.advance(Mark("first", 4, 44))
    assert second.mark == Mark("second", 1, 11)
    first.close()
    assert second.mark == Mark("second", 1, 11)
    second.close()


def test_a_collection_is_claimed_while_it_is_filled(
    gallery: Gallery, other: Gallery, faces: Faces, url: str
) -> None:
    """Nobody else may use it meanwhile, and a rebuild that was cut off is begun again."""
    gallery.enroll("one", faces.photos(0, 2))
    search = PeopleSearch.open(gallery, url)
    index = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)

    def cut_off() -> Iterator[Vectors]:
        with pytest.raises(IndexUnavailable, match="another gallery"):
            matches(search, faces.embedding(0))
        yield from ()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.rebuild(cut_off(), other.changes.head())
    index.close()
    with pytest.raises(IndexUnavailable, match="another gallery"):
        open_index(gallery, url)
    again = open_index(other, url)
    assert compare(other, again).whole
    assert again.mark == other.changes.head()
    again.close()
    search.close()


def test_a_rebuild_that_was_cut_off_is_noticed_by_the_gallerys_other_processes(
    gallery: Gallery, faces: Faces, url: str
) -> None:
    """They would take what is left of the collection for all of it."""
    gallery.enroll("one", faces.photos(0, 2))
    search = PeopleSearch.open(gallery, url)
    index = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)

    def cut_off() -> Iterator[Vectors]:
        yield from ()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        index.rebuild(cut_off(), gallery.changes.head())
    index.close()
    gallery.enroll("two", faces.photos(1, 2))
    for _ in range(2):
        with pytest.raises(IndexUnavailable, match="being rebuilt"):
            matches(search, faces.embedding(0))
    assert main(["rebuild", "--data", str(gallery.folder), "--index", url]) == 0
    assert matches(search, faces.embedding(0))[0].name == "one"
    search.close()


def test_an_encrypted_gallery_warns_that_milvus_gets_its_vectors_in_the_clear(
    tmp_path: Path, gallery: Gallery, faces: Faces, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    def warnings() -> list[str]:
        records = caplog.get_records("call")
        return [record.getMessage() for record in records if record.name == "index.engines.open"]

    caplog.set_level(logging.WARNING, logger="index.engines.open")
    gallery.enroll("one", faces.photos(0, 1))
    open_index(gallery, f"{url}&collection=plain").close()
    with Gallery.open(tmp_path / "sealed", model_id=MODEL, key=bytes(32)) as sealed:
        sealed.enroll("one", faces.photos(0, 1))
        open_index(sealed, "faiss").close()
        assert warnings() == []
        open_index(sealed, url).close()
    assert len(warnings()) == 1
    assert "Milvus keeps a copy of its vectors unencrypted" in warnings()[0]


def test_other_vector_length_is_refused(url: str) -> None:
    MilvusIndex.connect(url, dimension=16, model_id=MODEL).close()
    with pytest.raises(BundleMismatch, match="16"):
        MilvusIndex.connect(url, dimension=32, model_id=MODEL)


def test_vectors_of_another_model_are_not_searched(url: str, faces: Faces) -> None:
    index = MilvusIndex.connect(url, dimension=DIMENSION, model_id=MODEL)
    index.add(np.array([1]), faces.centres[:1], ["p"])
    index.close()
    other = MilvusIndex.connect(url, dimension=DIMENSION, model_id="model-b")
    assert other.search(faces.centres[:1], 1)[1][0, 0] == -1
    other.close()


def test_missing_pymilvus_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pymilvus", None)
    with pytest.raises(IndexUnavailable, match="pip install pymilvus"):
        MilvusIndex.connect("milvus://localhost", dimension=8, model_id=MODEL)


def test_absent_server_is_a_clear_error_in_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pymilvus")
    monkeypatch.setattr(milvus_client, "TIMEOUT", 1.0)
    monkeypatch.setattr(milvus_client, "ATTEMPTS", 2)
    start = time.monotonic()
    with pytest.raises(IndexUnavailable, match="does not answer"):
        MilvusIndex.connect("milvus://127.0.0.1:9", dimension=8, model_id=MODEL)
    assert time.monotonic() - start < 60
