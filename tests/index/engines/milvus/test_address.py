from __future__ import annotations

from pathlib import Path

import pytest

from index.engines.milvus.address import MilvusAddress


def test_server_address_with_options() -> None:
    url = "milvus://db.example:19531/people?db=hr&tls=1&index=hnsw&replicas=2&consistency=session"
    assert MilvusAddress.parse(url, {"MILVUS_TOKEN": "root:secret"}) == MilvusAddress(
        uri="https://db.example:19531",
        collection="people",
        database="hr",
        token="root:secret",
        index="HNSW",
        replicas=2,
        consistency="Session",
    )


def test_defaults() -> None:
    assert MilvusAddress.parse("milvus://localhost", {}) == MilvusAddress(
        uri="http://localhost:19530", collection="faces"
    )
    assert MilvusAddress.parse("milvus://[::1]/x", {}).uri == "http://[::1]:19530"
    lite = MilvusAddress.parse("milvus-lite:/tmp/a.db?collection=c", {})
    assert (lite.uri, lite.collection, lite.lite) == ("/tmp/a.db", "c", True)


def test_spellings_of_one_collection_have_one_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    def places(*urls: str) -> int:
        return len({MilvusAddress.parse(url, {}).place for url in urls})

    assert places("milvus://Host", "milvus://host:19530/faces/?db=default&index=FLAT") == 1
    assert places("milvus-lite:a.db", f"milvus-lite:{tmp_path}/x/../a.db/") == 1
    assert (
        places("milvus://a", "milvus://b", "milvus://a:1", "milvus://a/x", "milvus://a?db=x") == 5
    )
    assert places("milvus-lite:a.db", "milvus-lite:b.db", "milvus-lite:a.db?collection=c") == 3


@pytest.mark.parametrize(
    "url",
    [
        "http://x",
        "milvus:///x",
        "milvus://user:pw@host/x",
        "milvus://host/bad-name",
        "milvus://host/x?colour=red",
        "milvus://host/x?replicas=two",
        "milvus://host/x?consistency=perfect",
    ],
)
def test_other_forms_are_refused(url: str) -> None:
    with pytest.raises(ValueError):
        MilvusAddress.parse(url, {})
