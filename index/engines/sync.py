"""Synchronises an index and its cache file with the gallery."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from tqdm import tqdm

from index.engines.base import VectorIndex, foreign_index
from index.engines.faiss import cache as faiss_cache
from index.engines.faiss.cache import CACHE_FILE
from index.engines.faiss.index import Content, FaissIndex
from index.gallery import Gallery
from index.types import Mark, Vectors


def catch_up(gallery: Gallery, index: VectorIndex, *, progress: bool = False) -> int:
    """Applies the gallery's changes since the index's mark.

    Rebuilds an index whose mark is not in the log (the gallery was restored from an older copy),
    and an index of another gallery unless it is shared.

    Returns:
        The number of changes applied; 0 if it was up to date.

    Raises:
        IndexUnavailable: If the index is shared and belongs to another gallery.
    """
    mark = index.mark
    if mark is not None and mark == gallery.changes.head():
        return 0
    if index.shared and belongs_elsewhere(gallery, mark):
        raise foreign_index()
    if mark is None or gallery.changes.mark_at(mark.seq) != mark:
        return rebuild(gallery, index, progress=progress)
    applied = 0
    while changes := gallery.changes.since(mark.seq):
        last = {change.photo: change.operation for change in changes}
        gone = [photo for photo, operation in last.items() if operation == "drop"]
        if gone:
            index.remove(np.array(gone, np.int64))
        # A photo put here but dropped later in the log is no longer in the gallery.
        present = gallery.changes.vectors_of(
            [p for p, operation in last.items() if operation == "put"]
        )
        if len(present):
            index.add(present.ids, present.vectors, present.people)
        mark = gallery.changes.mark_at(changes[-1].seq)
        assert mark is not None, "the log holds the change that was just read"
        index.advance(mark)
        applied += len(changes)
    return applied


def belongs_elsewhere(gallery: Gallery, mark: Mark | None) -> bool:
    return mark is not None and mark.gallery_id != gallery.gallery_id


def take_over(gallery: Gallery, index: VectorIndex, *, progress: bool = False) -> int:
    """Like :func:`catch_up`, but rebuilds an index that belongs to another gallery."""
    fill = rebuild if belongs_elsewhere(gallery, index.mark) else catch_up
    return fill(gallery, index, progress=progress)


def rebuild(gallery: Gallery, index: VectorIndex, *, progress: bool = False) -> int:
    """Rebuilds the index from the gallery, even one of another; returns the number of vectors."""
    head, total = gallery.changes.head(), gallery.reader.counts().photos
    with tqdm(total=total, unit="photo", desc="index", disable=not (progress and total)) as bar:
        index.rebuild(_counted(gallery.changes.iter_embeddings(), bar), head)
    # Changes made during the iteration are in the log after `head`.
    catch_up(gallery, index)
    return total


def _counted(chunks: Iterable[Vectors], bar: tqdm) -> Iterator[Vectors]:
    for chunk in chunks:
        yield chunk
        bar.update(len(chunk))


@dataclass(frozen=True, eq=False)
class Snapshot:
    """The state of an index for a cache file, and the key to encrypt it with."""

    content: Content
    key: bytes


def save_cache(gallery: Gallery, index: VectorIndex) -> bool:
    """Saves an in-process index for the next start.

    Returns:
        False for an index on a server, which needs no file.
    """
    return write_cache(gallery, snapshot(gallery, index))


def snapshot(gallery: Gallery, index: VectorIndex) -> Snapshot | None:
    """Takes the state to cache; None for an index on a server, which needs no file.

    The caller must prevent other changes to the index meanwhile. Later changes do not affect the
    snapshot.
    """
    if not isinstance(index, FaissIndex):
        return None
    # Read the key before the state: an erasure in between then invalidates the file.
    key = gallery.changes.cache_key()
    catch_up(gallery, index)
    return Snapshot(index.content(), key)


def write_cache(gallery: Gallery, taken: Snapshot | None) -> bool:
    """Writes the gallery's cache file; returns False if there is nothing to write."""
    if taken is None:
        return False
    faiss_cache.save(taken.content, gallery.folder / CACHE_FILE, taken.key)
    return True


@dataclass(frozen=True)
class Agreement:
    """Whether an index holds exactly the gallery's photos.

    Attributes:
        missing: Photo numbers that are not in the index.
        surplus: Ids in the index that are not in the gallery.
    """

    photos: int
    missing: tuple[int, ...]
    surplus: tuple[int, ...]

    @property
    def whole(self) -> bool:
        return not self.missing and not self.surplus


def compare(gallery: Gallery, index: VectorIndex) -> Agreement:
    """Compares the ids of gallery and index."""
    # Read the index first, so that photos enrolled in between do not count as surplus.
    held = index.ids()
    wanted = gallery.changes.photo_ids()
    return Agreement(
        photos=len(wanted),
        missing=tuple(np.setdiff1d(wanted, held).tolist()),
        surplus=tuple(np.setdiff1d(held, wanted).tolist()),
    )


def repair(gallery: Gallery, index: VectorIndex) -> Agreement:
    """Catches up, then adds missing and removes surplus photos.

    Returns:
        The differences found before the repair.
    """
    catch_up(gallery, index)
    found = compare(gallery, index)
    # A gallery restored from an older copy may reuse numbers that the index still holds.
    known = gallery.changes.owners(found.surplus)
    gone = [number for number in found.surplus if number not in known]
    if gone:
        index.remove(np.array(gone, np.int64))
    for start in range(0, len(found.missing), 1000):
        rows = gallery.changes.vectors_of(found.missing[start : start + 1000])
        if len(rows):
            index.add(rows.ids, rows.vectors, rows.people)
    return found
