"""Opens the index of a gallery; the address chooses the engine."""

from __future__ import annotations

import logging

from index.engines.base import VectorIndex, foreign_index
from index.engines.faiss import cache as faiss_cache
from index.engines.faiss.cache import CACHE_FILE
from index.engines.faiss.index import FaissIndex
from index.engines.milvus.address import MilvusAddress
from index.engines.milvus.index import MilvusIndex
from index.engines.sync import belongs_elsewhere, catch_up
from index.gallery import Gallery
from model.errors import IndexUnavailable

log = logging.getLogger(__name__)


EMBEDDED = ("auto", "faiss")


def place(url: str) -> tuple[str, ...]:
    """Normalises an address: equal for all spellings of one index."""
    return ("faiss",) if url in EMBEDDED else MilvusAddress.parse(url).place


def open_index(
    gallery: Gallery, url: str = "faiss", *, dimension: int | None = None, progress: bool = False
) -> VectorIndex:
    """Opens the index of a gallery and brings it up to date.

    Args:
        url: ``faiss`` (or ``auto``) for an index in this process,
            ``milvus://host:19530/collection`` for a server, ``milvus-lite:/path/file.db`` for
            embedded Milvus. Milvus stores the vectors of an encrypted gallery unencrypted; a
            warning is logged.
        dimension: Length of a vector; required while the gallery is empty.

    Raises:
        IndexUnavailable: If the engine is not installed, its server does not answer, or the
            collection belongs to another gallery.
    """
    index = connect(gallery, url, dimension=dimension)
    try:
        catch_up(gallery, index, progress=progress)
    except BaseException:
        index.close()
        raise
    return index


def connect(gallery: Gallery, url: str, *, dimension: int | None = None) -> VectorIndex:
    """Opens an index without updating it or checking its gallery; see :func:`open_index`."""
    known = gallery.reader.dimension()
    if known and dimension and known != dimension:
        raise ValueError(f"the gallery's vectors have {known} numbers, not {dimension}")
    dimension = known or dimension
    if not dimension:
        raise ValueError("the gallery is empty: give the dimension of its future vectors")
    index: VectorIndex
    if url in EMBEDDED:
        index = local = FaissIndex(dimension)
        try:
            faiss_cache.load(local, gallery.folder / CACHE_FILE, gallery.changes.cache_key())
        except IndexUnavailable as error:
            log.info("%s It is rebuilt from the gallery.", error)
    else:
        index = MilvusIndex.connect(url, dimension=dimension, model_id=gallery.model_id)
        if gallery.encrypted:
            log.warning(
                "The gallery is encrypted, but Milvus keeps a copy of its vectors unencrypted: "
                "encrypt the disk of the server and the way to it."
            )
    return index


def discard(gallery: Gallery, url: str) -> None:
    """Deletes the stored data of an index: its cache file or its collection.

    Raises:
        IndexUnavailable: If the collection belongs to another gallery.
    """
    if url in EMBEDDED:
        (gallery.folder / CACHE_FILE).unlink(missing_ok=True)
    else:
        dimension = gallery.reader.dimension() or 8
        index = MilvusIndex.connect(url, dimension=dimension, model_id=gallery.model_id)
        if belongs_elsewhere(gallery, index.mark):
            index.close()
            raise foreign_index()
        index.drop()
