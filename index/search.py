"""Finds the enrolled people who look most like a face."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import zip_longest

import numpy as np

from index.engines.base import IndexStats, VectorIndex
from index.engines.open import connect
from index.engines.sync import catch_up, snapshot, write_cache
from index.fusion import DEFAULT_FUSION, Fusion, fuse, strangers
from index.gallery import Gallery
from index.gallery.database import Listener
from model.errors import BundleMismatch, FaceError
from model.types import Embedding, Match

log = logging.getLogger(__name__)

_SAVE_AFTER = 1000
"""Number of changes after which the cache file is rewritten, for galleries of up to 100,000
photos; larger galleries use one percent of the photos."""


@dataclass(frozen=True)
class SearchResult:
    """The people nearest to one face. The caller decides whether any of them matches.

    Attributes:
        nearest: The nearest people, best first, regardless of score.
        strangers: Effective number of comparisons with strangers, for the choice of a threshold;
            see :func:`index.fusion.strangers`.
    """

    nearest: tuple[Match, ...]
    people: int
    strangers: int


class PeopleSearch:
    """A gallery with its index, kept in sync. Thread-safe."""

    def __init__(
        self, gallery: Gallery, index: VectorIndex, *, fusion: Fusion = DEFAULT_FUSION
    ) -> None:
        self.gallery = gallery
        self.index = index
        self.fusion = fusion
        self._sync_lock = threading.Lock()
        self._save_lock = threading.Lock()
        self._unsaved = 0
        self._saving: threading.Thread | None = None
        self._listener: Listener | None = None

    @classmethod
    def open(
        cls,
        gallery: Gallery,
        url: str = "faiss",
        *,
        dimension: int | None = None,
        fusion: Fusion = DEFAULT_FUSION,
    ) -> PeopleSearch:
        """Opens the index of a gallery; see :func:`index.engines.open.open_index`."""
        search = cls(gallery, connect(gallery, url, dimension=dimension), fusion=fusion)
        try:
            search.sync()
        except BaseException:
            search.index.close()
            raise
        if not search.index.shared:
            search._listener = gallery.changes.listen(search._try_to_sync)
        return search

    def sync(self) -> int:
        """Brings the index up to date with the commits of all processes.

        Returns:
            The number of changes applied.
        """
        applied = 0
        # Check before locking: callers with an up-to-date index then need not wait for others,
        # who may be retrying a server that does not answer.
        if self.index.mark != self.gallery.changes.head():
            with self._sync_lock:
                applied = catch_up(self.gallery, self.index)
                self._unsaved += applied
        # In this order, because the length of an index on a server takes a request.
        if self._unsaved > _SAVE_AFTER and self._unsaved > len(self.index) // 100:
            self._save_in_background()
        return applied

    def search_many(
        self, queries: Sequence[Embedding], k: int = 5, *, fusion: Fusion | None = None
    ) -> list[SearchResult]:
        """Finds the people nearest to each of several faces.

        Args:
            k: Most people to return for each face.

        Raises:
            BundleMismatch: If a face was embedded by another model.
        """
        if k < 1:
            raise ValueError(f"k must be at least 1, got {k}")
        for query in queries:
            if query.model_id != self.gallery.model_id:
                raise BundleMismatch(
                    f"The face was embedded by the model {query.model_id}, the gallery holds "
                    f"embeddings of {self.gallery.model_id}.",
                    gallery=self.gallery.model_id,
                    model=query.model_id,
                )
        self.sync()
        fusion = fusion or self.fusion
        held = self.gallery.reader.counts()
        met = strangers(fusion, held.people, held.photos)
        if not queries or not len(self.index):
            return [SearchResult((), held.people, met) for _ in queries]
        vectors = np.stack([np.asarray(query.vector, np.float32) for query in queries])
        candidates = self._candidates(vectors, max(2 * k, 10))
        results = []
        for vector, person_ids in zip(vectors, candidates, strict=True):
            nearest = self._rank(vector, person_ids, k, fusion)
            results.append(SearchResult(nearest, held.people, met))
        return results

    def behind(self) -> int:
        """Number of gallery changes missing in the index; always 0 for an index on a server."""
        head = self.gallery.changes.head()
        if self.index.shared:
            return 0
        mark = self.index.mark
        return max(0, head.seq - (mark.seq if mark else 0))

    def stats(self) -> IndexStats:
        return self.index.stats()

    def save(self) -> bool:
        """Saves an in-process index for the next start; returns False for other indexes.

        Searches wait only for the snapshot, not for the write to disk.
        """
        with self._save_lock:
            with self._sync_lock:
                self._unsaved = 0
                taken = snapshot(self.gallery, self.index)
            return write_cache(self.gallery, taken)

    def close(self) -> None:
        """Saves the index if it changed and stops background work; the gallery stays open.

        If the cache cannot be saved, the next start only takes longer.
        """
        if self._listener is not None:
            self._listener.close()
        if self._saving is not None:
            self._saving.join()
        cached = any(self.gallery.folder.glob("index.cache"))
        if self._unsaved or not cached:
            self._try_to_save()
        self.index.close()

    def _candidates(self, vectors: np.ndarray, wanted: int) -> list[list[str]]:
        """Finds the people of the nearest photos of each query, best photo first."""
        held = len(self.index)
        photos = min(held, 4 * wanted)
        while True:
            _, ids = self.index.search(vectors, photos)
            owners = self.gallery.changes.owners(np.unique(ids[ids >= 0]).tolist())
            # dict keeps the first occurrence, so people stay ordered by their best photo.
            found = [
                list(dict.fromkeys(owners[i] for i in row if i in owners))[:wanted]
                for row in ids.tolist()
            ]
            # People with many photos can fill the list: widen the search until there are enough.
            if photos >= held or all(len(people) >= wanted for people in found):
                return found
            photos = min(held, 8 * photos)

    def _rank(
        self, vector: np.ndarray, person_ids: list[str], k: int, fusion: Fusion
    ) -> tuple[Match, ...]:
        """Scores people exactly, with the gallery's vectors of all their photos."""
        rows = self.gallery.changes.vectors_of_people(person_ids)
        owners = np.array(rows.people)
        scored = []
        for person_id in person_ids:
            mine = np.flatnonzero(owners == person_id)
            if len(mine):
                photos = rows.vectors[mine].astype(np.float32)
                best = int(rows.ids[mine[int(np.argmax(photos @ vector))]])
                scored.append((fuse(vector, photos, fusion), person_id, best))
        scored.sort(key=lambda item: -item[0])
        known = self.gallery.reader.get_many([person_id for _, person_id, _ in scored[:k]])
        following = [score for score, _, _ in scored[1:]]
        return tuple(
            Match(
                person_id=person_id,
                name=known[person_id].name,
                score=score,
                photo_id=str(photo),
                margin=None if after is None else score - after,
            )
            for (score, person_id, photo), after in zip_longest(scored, following)
            if person_id in known
        )

    def _save_in_background(self) -> None:
        if self._saving is None or not self._saving.is_alive():
            self._saving = threading.Thread(target=self._try_to_save, daemon=True)
            self._saving.start()

    def _try_to_sync(self) -> None:
        try:
            self.sync()
        except FaceError as error:
            log.warning("the index did not follow the gallery: %s; the next search tries", error)

    def _try_to_save(self) -> None:
        try:
            self.save()
        except (FaceError, OSError) as error:
            log.warning("the index cache was not saved: %s", error)
