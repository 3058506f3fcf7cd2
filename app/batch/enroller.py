"""Batch enrollment: many photos through decode, detect, embed and store, all at once.

Reading, decoding and detecting run in threads or processes of their own, the network in another
thread with full batches, and the gallery is written meanwhile; photos keep their order throughout.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np

from app.batch.detect_workers import Look, lookers
from app.batch.report import Line
from app.batch.sources import Item
from app.context import Context
from app.usecases import enroll as enroll_photos
from app.usecases.enroll import Prepared
from app.usecases.results import DetectedFace, Enrollment, PhotoResult, Upload
from index.crypto.keys import name_key
from model.errors import FaceError, GalleryError, GalleryUnavailable, WrongKey
from model.faces.detect import ChoicePolicy
from model.workers import processors

BATCH = 32
"""Photos in one run of the network."""

AHEAD = 4
"""Batches that may be decoded and detected ahead of the network; bounds memory."""


MOST_LOOKERS = 8
"""Processes started unless told otherwise; each takes a third of a gigabyte."""


def lookers_and_threads(asked: int | None = None) -> tuple[int, int]:
    """How many look at photos, and how many threads the network gets.

    With the shipped model on a CPU both take about as long, so each gets half of the processors,
    up to `MOST_LOOKERS`; with more threads than processors each would wait for one before a batch
    is done. A lighter network, or one on a GPU, leaves room for more who look.
    """
    count = processors()
    half = max(1, min(MOST_LOOKERS, count // 2))
    return asked or min(MOST_LOOKERS, count - count // 2), half


@dataclass(frozen=True, eq=False)
class _Looked:
    """A photo after detection: the face that is meant, or its result."""

    item: Item
    digest: str
    face: DetectedFace | None = None
    problem: PhotoResult | None = None


class BatchEnroller:
    """Enrolls items with one context.

    Args:
        context: Model and gallery.
        policy: Which face is meant: ``exactly_one`` refuses photos with several,
            ``largest_central`` takes the largest and most central.
        overrides: Reason by status why photos are to be stored all the same.
        dry_run: Look at everything and store nothing.
        workers: Photos that are decoded and searched for faces at the same time; see
            :func:`lookers_and_threads`.
    """

    def __init__(
        self,
        context: Context,
        *,
        policy: ChoicePolicy = "exactly_one",
        overrides: dict[str, str] | None = None,
        dry_run: bool = False,
        workers: int = 1,
    ) -> None:
        self.context = context
        self.policy = policy
        self.overrides = overrides or {}
        self.dry_run = dry_run
        self.workers = workers
        self._ids: dict[str, str | None] = {}

    def run(self, items: Sequence[Item]) -> Iterator[list[Line]]:
        """Enroll items; yields the lines of each batch once it is stored.

        Raises:
            FaceError: A part all photos need is away: gallery, index or calibration. The lines of
                what was stored until then have been given.
        """
        with (
            lookers(self.context.pipeline, self.policy, len(items), self.workers) as look,
            # One more than looks at photos: while it reads and hashes, nobody waits.
            ThreadPoolExecutor(self.workers + 1, "look") as looking,
            ThreadPoolExecutor(1, "network") as network,
        ):
            running: deque[Future] = deque()
            try:
                for batch in self._looked(items, look, looking):
                    running.append(network.submit(self._embed, batch))
                    while len(running) > 2 or (running and running[0].done()):
                        yield from self._store(*running.popleft().result())
                while running:
                    yield from self._store(*running.popleft().result())
            finally:
                looking.shutdown(wait=False, cancel_futures=True)

    def _looked(
        self, items: Sequence[Item], look: Look, pool: ThreadPoolExecutor
    ) -> Iterator[list[_Looked]]:
        source = iter(items)
        waiting: deque[Future[_Looked]] = deque()
        while True:
            room = AHEAD * BATCH - len(waiting)
            waiting.extend(pool.submit(self._look, i, look) for i in itertools.islice(source, room))
            if not waiting:
                return
            yield [waiting.popleft().result() for _ in range(min(BATCH, len(waiting)))]

    def _look(self, item: Item, look: Look) -> _Looked:
        try:
            data = item.read()
        except FaceError as error:
            return _Looked(item, "", problem=enroll_photos.failed(item.file, error))
        digest = hashlib.sha256(data).hexdigest()
        if known := self._known(item, digest):
            return _Looked(item, digest, problem=known)
        found = look(data, item.file)
        if isinstance(found, PhotoResult):
            return _Looked(item, digest, problem=_for_batches(found))
        return _Looked(item, digest, found)

    def _known(self, item: Item, digest: str) -> PhotoResult | None:
        """The result of a photo whose very content is stored; None for another."""
        stored = self.context.gallery.reader.photos_with_hash(digest)
        if not stored:
            return None
        owners = self.context.gallery.reader.get_many([photo.person_id for photo in stored])
        names = [
            owners[photo.person_id].name if photo.person_id in owners else "someone"
            for photo in stored
        ]
        # A group photo may be stored for several people, this one among them.
        own = [name_key(name) == name_key(item.name) for name in names]
        chosen = own.index(True) if any(own) else 0
        return PhotoResult(
            item.file,
            "already" if own[chosen] else "duplicate",
            f"This very photo is stored already, for {names[chosen]}.",
            stored[chosen].id,
            details={"person_id": stored[chosen].person_id},
        )

    def _embed(self, batch: Sequence[_Looked]) -> tuple[Sequence[_Looked], np.ndarray]:
        return batch, self.context.pipeline.embed([each.face for each in batch if each.face])

    def _store(self, batch: Sequence[_Looked], vectors: np.ndarray) -> Iterator[list[Line]]:
        rows = iter(vectors)
        prepared = [self._prepared(each, rows) for each in batch]
        by_person = itertools.groupby(
            zip(batch, prepared, strict=True), key=lambda pair: pair[0].item.name
        )
        lines: list[Line] = []
        try:
            # A commit for each person: the guard sees only what is committed, and has to see the
            # people just before this one too.
            for name, group in by_person:
                lines += self._store_person(name, list(group))
        except FaceError:
            # The people before the one it failed at are stored, and the report has to say so.
            yield lines
            raise
        yield lines

    def _prepared(self, each: _Looked, rows: Iterator[np.ndarray]) -> Prepared:
        upload = Upload(each.item.file, b"")
        if each.face is None:
            return Prepared(upload, problem=each.problem)
        photo = enroll_photos.new_photo(self.context, upload, each.face, next(rows), each.digest)
        return Prepared(upload, photo, each.face)

    def _store_person(self, name: str, group: list[tuple[_Looked, Prepared]]) -> list[Line]:
        prepared = [each for _, each in group]
        person_id = None
        try:
            if self.dry_run:
                results = self._would_be(name, prepared)
            else:
                result = self._stored(name, prepared, group[0][0].item)
                results, person_id = result.photos, result.person_id
        except (GalleryUnavailable, WrongKey):
            # Says nothing of these photos; the run ends with it, as with a search engine away.
            raise
        except GalleryError as error:
            results = [
                each.problem or PhotoResult(each.upload.name, "conflict", error.message)
                for each in prepared
            ]
        return [
            _line(self._settled(looked, result), name, person_id)
            for (looked, _), result in zip(group, results, strict=True)
        ]

    def _settled(self, looked: _Looked, result: PhotoResult) -> PhotoResult:
        """A photo given twice for one person is ``already`` stored, by its first copy."""
        if result.status != "duplicate":
            return result
        if self.dry_run and "person_id" not in result.details:
            return replace(result, status="already")
        return self._known(looked.item, looked.digest) or result

    def _stored(self, name: str, prepared: list[Prepared], item: Item) -> Enrollment:
        known = self._ids.get(name)
        # People who are there already keep their facts; app.batch.metadata adds what they lack.
        new = known is None and not self.context.gallery.reader.find_by_name(name)
        result = enroll_photos.store(
            self.context,
            name,
            prepared,
            consent=item.consent if new else "",
            metadata=item.metadata,
            overrides=self.overrides,
            person_id=known,
        )
        if result.accepted:
            self._ids[name] = result.person_id
        return result

    def _would_be(self, name: str, prepared: list[Prepared]) -> list[PhotoResult]:
        photos = [each.photo for each in prepared if each.photo]
        same = self.context.gallery.reader.find_by_name(name)
        known = same[0].id if len(same) == 1 else None
        found = iter(enroll_photos.findings(self.context, photos, name, known))
        results = []
        for each in prepared:
            stopping = enroll_photos.blocking(next(found), self.overrides) if each.photo else None
            if each.problem:
                results.append(each.problem)
            elif stopping:
                results.append(enroll_photos.refused(each, stopping))
            else:
                would = enroll_photos.accepted(each, None, name, {})
                results.append(replace(would, message=f"{each.upload.name} would be stored."))
        return results


def _for_batches(result: PhotoResult) -> PhotoResult:
    """In a batch nobody can point at a face; the message names what can be done."""
    if result.status != "several_faces":
        return result
    message = (
        f"There are {result.details['count']} faces in {result.name!r}; --faces largest_central "
        "takes the largest and most central one."
    )
    return replace(result, message=message)


def _line(result: PhotoResult, name: str, person_id: str | None) -> Line:
    owner = person_id if result.status == "accepted" else result.details.get("person_id")
    return Line(
        file=result.name,
        name=name,
        status=result.status,
        message=result.message,
        person_id=owner or "",
        photo_id=result.photo_id or "",
        quality=f"{result.quality.score:.3f}" if result.quality else "",
    )
