"""What is particular to Milvus; the common contract is in test_contract.py."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import numpy as np
import pytest

from index import milvus_index
from index.follow import compare, discard, open_index
from index.gallery import Gallery
from index.milvus_index import MilvusIndex, retry
from index.search import PeopleSearch
from model.errors import BundleMismatch, IndexUnavailable
from tests.index.helpers import DIMENSION, MODEL, Faces


@pytest.fixture
def url(tmp_path: Path) -> str:
    pytest.importorskip("milvus_lite", reason="Milvus Lite is not installed")
    return f"milvus-lite:{tmp_path}/lite.db?index=FLAT"


def test_people_are_found_through_milvus(gallery: Gallery, faces: Faces, url: str) -> None:
    for n in range(12):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    search = PeopleSearch.open(gallery, url)
    assert search.search(faces.embedding(5), threshold=0.5).matches[0].name == "p5"
    gallery.enroll("late", faces.photos(20, 1))
    assert search.search(faces.embedding(20), threshold=0.5).matches[0].name == "late"
    one, two = gallery.find_by_name("p1")[0], gallery.find_by_name("p2")[0]
    gallery.merge(one.id, two.id)
    gallery.forget(gallery.find_by_name("p5")[0].id)
    assert not search.search(faces.embedding(5), threshold=0.6).known
    assert compare(gallery, search.index).whole
    search.close()
    again = open_index(gallery, url)
    assert again.mark == gallery.head()
    assert compare(gallery, again).whole
    again.close()
    discard(gallery, url)
    assert not (gallery.folder / "index.cache").exists()


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
    monkeypatch.setattr(milvus_index, "TIMEOUT", 1.0)
    monkeypatch.setattr(milvus_index, "ATTEMPTS", 2)
    start = time.monotonic()
    with pytest.raises(IndexUnavailable, match="does not answer"):
        MilvusIndex.connect("milvus://127.0.0.1:9", dimension=8, model_id=MODEL)
    assert time.monotonic() - start < 60


def test_passing_trouble_is_waited_out_and_refusal_is_not() -> None:
    exceptions = pytest.importorskip("pymilvus.exceptions")
    calls = []

    def shaky() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise exceptions.MilvusException(2, "StatusCode.UNAVAILABLE")
        return "done"

    assert retry(shaky, "uri") == "done"
    assert len(calls) == 3

    def refuse() -> None:
        calls.append(1)
        raise exceptions.MilvusException(1100, "field person_id is wrong")

    with pytest.raises(IndexUnavailable, match="refused"):
        retry(refuse, "uri")
    assert len(calls) == 4
