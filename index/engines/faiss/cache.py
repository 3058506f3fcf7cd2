"""The cache file of the FAISS index: loads in seconds and is discarded when in doubt.

The file is encrypted with a key stored in the gallery. This detects damage, keeps the vectors of
an encrypted gallery unreadable, and lets an erasure invalidate every copy of the file by
replacing the key.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from index.crypto.encrypted_file import EncryptedReader, EncryptedWriter
from index.engines.faiss.blocks import FastBlock, FlatBlock, fp16_store, store_view
from index.engines.faiss.index import Content, FaissIndex
from index.engines.faiss.install import load_faiss
from index.types import Mark
from model.atomic import made_whole
from model.errors import FaceError, IndexUnavailable

CACHE_FILE = "index.cache"
_VERSION = 1


def save(content: Content, path: Path, key: bytes) -> None:
    """Writes a cache atomically.

    Args:
        content: From :meth:`FaissIndex.content`; must have a mark.
        key: The gallery's current cache key.
    """
    if content.mark is None:
        raise ValueError("an index that stands for no gallery change cannot be cached")
    flat, fast = content.flat, content.fast
    coder = np.empty(0, np.uint8)
    if fast is not None and fast.kind == "rabitq":
        coder = load_faiss().serialize_index(fast.coder)
    head = {
        "version": _VERSION,
        "dimension": flat.store.d,
        "mark": [content.mark.gallery_id, content.mark.seq, content.mark.token],
        "flat": len(flat),
        "fast": len(fast) if fast else 0,
        "coder": coder.nbytes,
    }
    with (
        made_whole(path, private=True) as partial,
        partial.open("wb") as file,
        EncryptedWriter(file, key) as stream,
    ):
        text = json.dumps(head).encode()
        stream.write(len(text).to_bytes(4, "big") + text)
        _put(stream, flat.ids)
        _put(stream, flat.vectors)
        if fast:
            _put(stream, fast.ids)
            _put(stream, store_view(fast.store))
            _put(stream, coder)


def load(index: FaissIndex, path: Path, key: bytes) -> None:
    """Fills an index from a cache.

    Raises:
        IndexUnavailable: If the file is missing, damaged, truncated, invalidated by an erasure or
            does not match; the index is unchanged.
    """
    try:
        with open(path, "rb", buffering=0) as file:
            content = _read(index, EncryptedReader(file, key))
    except FileNotFoundError as error:
        raise IndexUnavailable(f"There is no index cache {path}.") from error
    except (OSError, ValueError, KeyError, TypeError, RuntimeError, FaceError) as error:
        raise IndexUnavailable(f"The index cache {path} cannot be used: {error}") from error
    index.restore(content)


def _read(index: FaissIndex, stream: EncryptedReader) -> Content:
    size = int.from_bytes(stream.read(4), "big")
    head = json.loads(stream.read(size))
    dimension = head["dimension"]
    if head["version"] != _VERSION or dimension != index.dimension:
        raise ValueError("it was written for another version or vector length")
    flat_ids = _array(stream, head["flat"], np.int64)
    flat = FlatBlock.around(flat_ids, _store(stream, head["flat"], dimension))
    fast = None
    if head["fast"]:
        ids = _array(stream, head["fast"], np.int64)
        store = _store(stream, head["fast"], dimension)
        if head["coder"]:
            fast = FastBlock(ids, store, _coder(stream, head["coder"]), "rabitq")
        else:
            fast = index.build(ids, store)
    return Content(flat, fast, Mark(*head["mark"]))


def _put(stream: EncryptedWriter, array: np.ndarray) -> None:
    if array.size:
        stream.write(np.ascontiguousarray(array).data.cast("B"))


def _array(stream: EncryptedReader, count: int, kind: type) -> np.ndarray:
    array: np.ndarray = np.empty(count, kind)
    _fill(stream, array)
    return array


def _store(stream: EncryptedReader, count: int, dimension: int) -> Any:
    store = fp16_store(dimension)
    store.codes.resize(count * store.code_size)
    store.ntotal = count
    _fill(stream, store_view(store))
    return store


def _coder(stream: EncryptedReader, size: int) -> Any:
    faiss = load_faiss()
    memory = faiss.VectorIOReader()
    memory.data.resize(size)
    _fill(stream, faiss.rev_swig_ptr(memory.data.data(), size))
    return faiss.read_index(memory)


def _fill(stream: EncryptedReader, array: np.ndarray) -> None:
    if array.size and stream.readinto(array.data.cast("B")) != array.nbytes:
        raise ValueError("it ends too early")
