from __future__ import annotations

import pytest

from index.milvus_url import MilvusAddress


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
