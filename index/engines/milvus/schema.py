"""The collections of a Milvus index."""

from __future__ import annotations

from typing import Any

from index.engines.milvus.address import MilvusAddress


def state_name(collection: str) -> str:
    return f"{collection}_state"


def create_collections(client: Any, address: MilvusAddress, dimension: int) -> None:
    """Creates the two collections if they are missing, and loads them.

    Args:
        client: A ``pymilvus.MilvusClient``.
    """
    from pymilvus import DataType

    if not client.has_collection(address.collection):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        # All photos of a person are in one partition, so that a filter by person reads only one.
        schema.add_field("person_id", DataType.VARCHAR, max_length=64, is_partition_key=True)
        schema.add_field("model_id", DataType.VARCHAR, max_length=128)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=dimension)
        _create(client, address.collection, schema, "COSINE", index_parameters(address.index))
    if not client.has_collection(state_name(address.collection)):
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("gallery_id", DataType.VARCHAR, max_length=64)
        schema.add_field("seq", DataType.INT64)
        schema.add_field("token", DataType.INT64)
        # A collection must have a vector; this one is never searched.
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=2)
        _create(client, state_name(address.collection), schema, "L2", {"index_type": "FLAT"})
    replicas = {} if address.lite else {"replica_number": address.replicas}
    client.load_collection(address.collection, **replicas)
    client.load_collection(state_name(address.collection))


def index_parameters(kind: str) -> dict[str, Any]:
    """Build parameters of an index type; others use the server's defaults."""
    parameters = {
        "HNSW": {"M": 32, "efConstruction": 360},
        "IVF_FLAT": {"nlist": 4096},
        "IVF_SQ8": {"nlist": 4096},
    }.get(kind, {})
    return {"index_type": kind, "params": parameters}


def search_parameters(kind: str, k: int) -> dict[str, Any]:
    """Search parameters that favour recall over speed."""
    parameters = {
        "HNSW": {"ef": max(256, 2 * k)},
        "IVF_FLAT": {"nprobe": 256},
        "IVF_SQ8": {"nprobe": 256},
        "DISKANN": {"search_list": max(200, 2 * k)},
    }.get(kind, {})
    return {"metric_type": "COSINE", "params": parameters}


def _create(client: Any, name: str, schema: Any, metric: str, parameters: dict[str, Any]) -> None:
    indexes = client.prepare_index_params()
    indexes.add_index("vector", metric_type=metric, **parameters)
    client.create_collection(name, schema=schema, index_params=indexes, consistency_level="Strong")
