"""The address of a Milvus index: a URL, with secrets from the environment."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

TOKEN_VARIABLE = "MILVUS_TOKEN"
DEFAULT_COLLECTION = "faces"
CONSISTENCIES = ("Strong", "Session", "Bounded", "Eventually")


@dataclass(frozen=True)
class MilvusAddress:
    """The location of a collection and its options.

    Attributes:
        uri: Address for pymilvus: ``http(s)://host:port``, or a file for Milvus Lite.
        database: Name of the database, or "" for the default one.
        token: ``user:password`` or an API key, or "".
        index: Index type, for example ``AUTOINDEX``, ``FLAT``, ``HNSW``, ``IVF_SQ8``, ``DISKANN``.
        replicas: Number of in-memory replicas on the server.
        consistency: Consistency level of searches: ``Strong``, ``Session``, ``Bounded`` or
            ``Eventually``.
    """

    uri: str
    collection: str = DEFAULT_COLLECTION
    database: str = ""
    token: str = ""
    index: str = "AUTOINDEX"
    replicas: int = 1
    consistency: str = "Strong"

    @property
    def lite(self) -> bool:
        return not self.uri.startswith(("http://", "https://"))

    @property
    def place(self) -> tuple[str, str, str]:
        """Server or file, database and collection: equal for all spellings of one collection."""
        uri = str(Path(self.uri).resolve()) if self.lite else self.uri
        return uri, self.database or "default", self.collection

    @classmethod
    def parse(cls, url: str, environment: Mapping[str, str] | None = None) -> MilvusAddress:
        """Parses ``milvus://host:19530/collection`` or ``milvus-lite:/path/file.db``.

        Options are query parameters: ``?db=name&tls=1&index=HNSW&replicas=2&collection=name``.
        The token comes from the variable ``MILVUS_TOKEN``, so that it does not appear in logs.
        """
        environment = os.environ if environment is None else environment
        parts = urlsplit(url)
        options = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        unknown = set(options) - {"db", "tls", "index", "replicas", "collection", "consistency"}
        if parts.scheme not in ("milvus", "milvus-lite") or unknown:
            raise ValueError(
                "an index is 'faiss', 'milvus://host:19530/collection' or 'milvus-lite:/path.db' "
                "with the options db, tls, index, replicas, collection, consistency; "
                f"got {url!r}"
            )
        if parts.scheme == "milvus":
            if not parts.hostname or parts.username:
                raise ValueError(
                    f"{url!r} needs a host and no user: set {TOKEN_VARIABLE}=user:password"
                )
            secure = options.get("tls", "0").lower() in ("1", "true", "yes")
            host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
            uri = f"{'https' if secure else 'http'}://{host}:{parts.port or 19530}"
            collection = parts.path.strip("/") or DEFAULT_COLLECTION
        else:
            uri, collection = parts.path, DEFAULT_COLLECTION
        collection = options.get("collection", collection)
        if not re.fullmatch(r"[A-Za-z_]\w{0,200}", collection):
            raise ValueError(
                f"a collection's name has letters, digits and underscores, got {collection!r}"
            )
        consistency = options.get("consistency", "Strong").capitalize()
        if consistency not in CONSISTENCIES:
            raise ValueError(f"consistency must be one of {CONSISTENCIES}, got {consistency!r}")
        return cls(
            uri=uri,
            collection=collection,
            database=options.get("db", ""),
            token=environment.get(TOKEN_VARIABLE, ""),
            index=options.get("index", "AUTOINDEX").upper(),
            replicas=int(options.get("replicas", "1")),
            consistency=consistency,
        )
