"""Against a real server: ``pytest -m server``. The common contract is in test_contract.py."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from index.__main__ import main
from index.engines.milvus import client as milvus_client
from index.engines.open import open_index
from index.engines.sync import compare
from index.gallery import Gallery
from index.search import PeopleSearch
from model.errors import IndexUnavailable
from tests.index.helpers import Faces, matches
from tests.index.milvus_server import MilvusServer

pytestmark = pytest.mark.server


def test_acknowledged_enrollment_is_found_at_once(
    gallery: Gallery, faces: Faces, milvus_server: MilvusServer
) -> None:
    search = PeopleSearch.open(gallery, milvus_server.url("atonce"), dimension=64)
    for n in range(20):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
        assert [match.name for match in matches(search, faces.embedding(n), 1)] == [f"p{n}"]
    one, two = gallery.reader.find_by_name("p1")[0], gallery.reader.find_by_name("p2")[0]
    gallery.merge(one.id, two.id)
    gallery.forget(gallery.reader.find_by_name("p5")[0].id)
    assert not matches(search, faces.embedding(5), 1, threshold=0.6)
    assert compare(gallery, search.index).whole
    search.index.drop()


@pytest.mark.parametrize("kind", ["AUTOINDEX", "HNSW", "IVF_SQ8", "FLAT"])
def test_index_types_find_the_right_person(
    gallery: Gallery, faces: Faces, milvus_server: MilvusServer, kind: str
) -> None:
    with gallery.batch():
        for n in range(40):
            gallery.enroll(f"p{n}", faces.photos(n, 3))
    search = PeopleSearch.open(gallery, milvus_server.url(f"kind_{kind.lower()}", index=kind))
    for n in range(0, 40, 4):
        assert matches(search, faces.embedding(n), 1)[0].name == f"p{n}"
    search.index.drop()


def test_server_killed_during_enrollments_is_brought_back_in_step(
    gallery: Gallery,
    faces: Faces,
    milvus_server: MilvusServer,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Enrollments go on while the server is dead; after a restart and ``sync`` both agree."""
    monkeypatch.setattr(milvus_client, "TIMEOUT", 3.0)
    monkeypatch.setattr(milvus_client, "ATTEMPTS", 2)
    url = milvus_server.url("killed")
    search = PeopleSearch.open(gallery, url, dimension=64)
    for n in range(5):
        gallery.enroll(f"early {n}", faces.photos(n, 2))
    search.sync()
    gallery.forget(gallery.reader.find_by_name("early 1")[0].id)
    killer = threading.Timer(1.0, milvus_server.kill)
    killer.start()
    away = number = 0
    begin = time.monotonic()
    while away < 2 and time.monotonic() - begin < 120:
        gallery.enroll(f"p{number}", faces.photos(number % 50, 2))
        number += 1
        try:
            search.sync()
        except IndexUnavailable:
            away += 1
    killer.join()
    assert away == 2
    assert gallery.reader.count() == 4 + number
    milvus_server.start()
    assert main(["sync", "--data", str(gallery.folder), "--index", url]) == 0
    assert "agree" in capsys.readouterr().out
    index = open_index(gallery, url)
    assert compare(gallery, index).whole
    assert index.mark == gallery.changes.head()
    index.drop()


def test_move_to_the_server_and_back(
    gallery: Gallery,
    faces: Faces,
    milvus_server: MilvusServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for n in range(10):
        gallery.enroll(f"p{n}", faces.photos(n, 2))
    folder, url = str(gallery.folder), milvus_server.url("moved")
    assert main(["move", "--data", folder, "--from", "faiss", "--to", url]) == 0
    assert main(["move", "--data", folder, "--from", url, "--to", "faiss"]) == 0
    assert capsys.readouterr().out.count("20 photos") == 2
    assert Path(folder, "index.cache").exists()
