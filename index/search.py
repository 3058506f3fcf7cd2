"""Search by person: who is this, among everyone enrolled, or nobody?"""

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
"""Changes after which the cache file is written again, for galleries of up to 100,000 photos;
one percent of the photos for larger ones."""


@dataclass(frozen=True)
class SearchResult:
    """The people nearest to one face. Whether any of them matches is for the caller to decide.

    Attributes:
        nearest: The nearest people whatever their score, best first.
        people: Number of people searched.
        strangers: How many comparisons with strangers the search is worth; a threshold must
            allow for them. See :func:`index.fusion.strangers`.
    """

    nearest: tuple[Match, ...]
    people: int
    strangers: int


class PeopleSearch:
    """A gallery with its index, kept in step; made for many threads.

    Args:
        gallery: The source of truth.
        index: An index of it.
        fusion: How the photos of a person make one score.
    """

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
        progress: bool = False,
    ) -> PeopleSearch:
        """Opens the index of a gallery; see :func:`index.engines.open.open_index`."""
        search = cls(gallery, connect(gallery, url, dimension=dimension), fusion=fusion)
        try:
            search.sync(progress=progress)
        except BaseException:
            search.index.close()
            raise
        if not search.index.shared:
            search._listener = gallery.changes.listen(search._try_to_sync)
        return search

    def sync(self, *, progress: bool = False) -> int:
        """Brings the index up to date with every commit of this or another process.

        Args:
            progress: Show a bar on the terminal when the index must be rebuilt.

        Returns:
            The number of changes applied.
        """
        applied = 0
        # Asked before the lock: whoever finds the index up to date need not wait for the others,
        # nor for their patience with a server that is away.
        if self.index.mark != self.gallery.changes.head():
            with self._sync_lock:
                applied = catch_up(self.gallery, self.index, progress=progress)
                self._unsaved += applied
        # In this order: the length of an index elsewhere is a question to its server.
        if self._unsaved > _SAVE_AFTER and self._unsaved > len(self.index) // 100:
            self._save_in_background()
        return applied

    def search_many(
        self, queries: Sequence[Embedding], k: int = 5, *, fusion: Fusion | None = None
    ) -> list[SearchResult]:
        """Finds the people nearest to each of several faces.

        Args:
            queries: The faces.
            k: How many people at most, for each face.
            fusion: Another way to fuse photos than this object's own.

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
        """Changes of the gallery that the index lacks; 0 for one elsewhere, which is not asked."""
        head = self.gallery.changes.head()
        if self.index.shared:
            return 0
        mark = self.index.mark
        return max(0, head.seq - (mark.seq if mark else 0))

    def stats(self) -> IndexStats:
        """What the index is and holds."""
        return self.index.stats()

    def save(self) -> bool:
        """Saves the index for the next start, if it lives in this process.

        Searches wait only while its state is taken, not while it is written.
        """
        with self._save_lock:
            with self._sync_lock:
                self._unsaved = 0
                taken = snapshot(self.gallery, self.index)
            return write_cache(self.gallery, taken)

    def close(self) -> None:
        """Saves the index if it changed and ends background work; the gallery stays open.

        A cache that cannot be saved costs time at the next start, nothing else.
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
        """People behind the nearest photos of each query, best photo first."""
        held = len(self.index)
        photos = min(held, 4 * wanted)
        while True:
            _, ids = self.index.search(vectors, photos)
            owners = self.gallery.changes.owners(np.unique(ids[ids >= 0]).tolist())
            # dict keeps the first occurrence, and with it the order of the best photos.
            found = [
                list(dict.fromkeys(owners[i] for i in row if i in owners))[:wanted]
                for row in ids.tolist()
            ]
            # People with many photos can fill the list: look further until there are enough.
            if photos >= held or all(len(people) >= wanted for people in found):
                return found
            photos = min(held, 8 * photos)

    def _rank(
        self, vector: np.ndarray, person_ids: list[str], k: int, fusion: Fusion
    ) -> tuple[Match, ...]:
        """Scores people exactly, from the gallery's own vectors of all their photos."""
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
