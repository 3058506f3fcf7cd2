"""The Milvus index: the same interface, with the vectors on a server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from index.engines.base import IndexStats, check_queries, check_rows, foreign_index
from index.engines.milvus import client as milvus_client
from index.engines.milvus.address import MilvusAddress
from index.engines.milvus.client import RetryingClient, retry
from index.engines.milvus.schema import create_collections, search_parameters, state_name
from index.types import Mark, Vectors
from model.errors import BundleMismatch, IndexUnavailable

BATCH = 500
"""Vectors per request: about 1 MB at 512 dimensions, far below the server's limit of 64 MB."""
MOST_RESULTS = 16_384
"""Most results per query of a Milvus server."""
OWNER_SECONDS = 1.0
"""Most seconds until a process notices that another gallery has taken over the collection."""
CLAIMED = -1
"""The ``seq`` of a collection that is being rebuilt; no gallery change has this number."""


class MilvusIndex:
    """Vectors in a Milvus collection. Create it with :meth:`connect`.

    With the default consistency level ``Strong``, a search sees all earlier acknowledged writes of
    any process, but has to wait for the server's clock. With ``Session`` it sees this process's
    writes at once and others soon.

    The mark is stored in a second, small collection after the vectors, so that a crash in between
    only repeats work. It also identifies the owner: a collection belongs to one gallery until
    another rebuilds it.

    Milvus stores the vectors unencrypted, even those of an encrypted gallery.
    """

    shared = True

    def __init__(self, client: Any, address: MilvusAddress, dimension: int, model_id: str) -> None:
        self._client = client
        self._address = address
        self._name = address.collection
        self._dimension = dimension
        self._model_id = model_id
        self._mark: Mark | None = None
        self._asked = -OWNER_SECONDS  # never
        self._calls = RetryingClient(client, address.uri)

    @classmethod
    def connect(cls, url: str, *, dimension: int, model_id: str) -> MilvusIndex:
        """Connects, and creates the collection if it is missing.

        Args:
            url: See :class:`MilvusAddress`.

        Raises:
            IndexUnavailable: If pymilvus is not installed or the server does not answer.
            BundleMismatch: If the collection holds vectors of another length.
        """
        address = MilvusAddress.parse(url)
        try:
            from pymilvus import MilvusClient
        except ImportError as error:
            raise IndexUnavailable(
                "Milvus needs the package pymilvus: pip install pymilvus (and milvus-lite for "
                "milvus-lite: addresses)."
            ) from error

        def dial() -> MilvusIndex:
            client = MilvusClient(
                uri=address.uri,
                token=address.token,
                db_name=address.database,
                timeout=milvus_client.TIMEOUT,
            )
            index = cls(client, address, dimension, model_id)
            index._prepare()
            return index

        return retry(dial, address.uri)

    def _prepare(self) -> None:
        create_collections(self._client, self._address, self._dimension)
        fields = self._client.describe_collection(self._name)["fields"]
        held = next(int(field["params"]["dim"]) for field in fields if field["name"] == "vector")
        if held != self._dimension:
            raise BundleMismatch(
                f"The collection {self._name} holds vectors of {held} numbers, the gallery's "
                f"have {self._dimension}. Use another collection."
            )

    @property
    def dimension(self) -> int:
        return self._dimension

    @property
    def mark(self) -> Mark | None:
        """The last change that this process knows to be included.

        Raises:
            IndexUnavailable: If another gallery has taken over the collection.
        """
        # Another process of the same gallery may be ahead. This one then repeats its work, which
        # is harmless.
        if self._mark is not None and time.monotonic() - self._asked < OWNER_SECONDS:
            return self._mark
        stored = self._stored_mark(self._calls.ask)
        if self._mark is None or stored is None:
            self._mark = stored
        else:
            self._check_owner(stored, self._mark.gallery_id)
        self._asked = time.monotonic()
        return self._mark

    def _check_owner(self, stored: Mark, gallery_id: str) -> None:
        """Raises if the mark is of another gallery or another process is rebuilding."""
        if stored.gallery_id != gallery_id:
            raise foreign_index()
        if stored.seq == CLAIMED and (self._mark is None or self._mark.seq != CLAIMED):
            raise IndexUnavailable(
                "The collection is being rebuilt. If that was cut off, run `python -m index "
                "rebuild` again."
            )

    def _stored_mark(self, call: Callable[..., Any]) -> Mark | None:
        found = call(
            "query",
            state_name(self._name),
            filter="id == 0",
            output_fields=["gallery_id", "seq", "token"],
            consistency_level="Strong",
        )
        if not found:
            return None
        return Mark(found[0]["gallery_id"], int(found[0]["seq"]), int(found[0]["token"]))

    def advance(self, mark: Mark) -> None:
        stored = self._stored_mark(self._calls.write)
        if stored is not None:
            self._check_owner(stored, mark.gallery_id)
        self._store_mark(mark)

    def _store_mark(self, mark: Mark) -> None:
        row = {
            "id": 0,
            "gallery_id": mark.gallery_id,
            "seq": mark.seq,
            "token": mark.token,
            "vector": [0.0, 1.0],
        }
        self._calls.write("upsert", state_name(self._name), [row])
        self._mark = mark

    def add(self, ids: np.ndarray, vectors: np.ndarray, people: Sequence[str]) -> None:
        ids = check_rows(self._dimension, ids, vectors)
        if len(people) != len(ids):
            raise ValueError(f"{len(ids)} ids came with {len(people)} person ids")
        # The person is the partition key. A photo moved to another person could remain in the old
        # partition, so remove it first.
        self.remove(ids)
        for start in range(0, len(ids), BATCH):
            part = slice(start, start + BATCH)
            halves = np.asarray(vectors[part], np.float32)
            rows = [
                {"id": number, "person_id": person, "model_id": self._model_id, "vector": vector}
                for number, person, vector in zip(
                    ids[part].tolist(), people[part], halves, strict=True
                )
            ]
            self._calls.write("upsert", self._name, rows)

    def remove(self, ids: np.ndarray) -> int:
        ids = np.asarray(ids, np.int64).reshape(-1)
        removed = 0
        for start in range(0, len(ids), BATCH):
            found = self._calls.write(
                "query",
                self._name,
                filter=f"id in {ids[start : start + BATCH].tolist()}",
                output_fields=["id"],
                consistency_level="Strong",
            )
            if found:
                self._calls.write("delete", self._name, ids=[row["id"] for row in found])
            removed += len(found)
        return removed

    def search(self, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        queries = check_queries(self._dimension, queries, k)
        scores = np.full((len(queries), k), -np.inf, np.float32)
        ids = np.full((len(queries), k), -1, np.int64)
        if not len(queries):
            return scores, ids
        hits = self._calls.ask(
            "search",
            self._name,
            data=list(queries),
            limit=min(k, MOST_RESULTS),
            filter=f'model_id == "{self._model_id}"',
            search_params=search_parameters(self._address.index, k),
            consistency_level=self._address.consistency,
        )
        for row, found in enumerate(hits):
            for column, hit in enumerate(found):
                scores[row, column] = hit["distance"]
                ids[row, column] = hit["id"]
        return scores, ids

    def __len__(self) -> int:
        found = self._calls.ask(
            "query",
            self._name,
            filter="",
            output_fields=["count(*)"],
            consistency_level="Strong",
        )
        return int(found[0]["count(*)"])

    def ids(self) -> np.ndarray:
        def walk() -> list[int]:
            pages = self._client.query_iterator(
                self._name,
                batch_size=8192,
                filter="id >= 0",
                output_fields=["id"],
                consistency_level="Strong",
            )
            numbers: list[int] = []
            while page := pages.next():
                numbers += [row["id"] for row in page]
            pages.close()
            return numbers

        return np.sort(np.array(retry(walk, self._address.uri), np.int64))

    def rebuild(self, chunks: Iterable[Vectors], mark: Mark) -> None:
        # Claim the collection before emptying it: processes of other galleries are rejected from
        # now on, and an interrupted rebuild starts again.
        self._store_mark(Mark(mark.gallery_id, CLAIMED, 0))
        self._calls.write("drop_collection", self._name)
        retry(self._prepare, self._address.uri)
        for chunk in chunks:
            self.add(chunk.ids, chunk.vectors, chunk.people)
        self.advance(mark)

    def drop(self) -> None:
        self._calls.write("drop_collection", state_name(self._name))
        self._calls.write("drop_collection", self._name)
        self.close()

    def stats(self) -> IndexStats:
        mark = self.mark
        return IndexStats(
            engine="milvus",
            kind=self._address.index.lower(),
            count=len(self),
            dimension=self._dimension,
            memory_bytes=0,
            details={
                "uri": self._address.uri,
                "collection": self._name,
                "seq": mark.seq if mark else 0,
            },
        )

    def close(self) -> None:
        self._client.close()
