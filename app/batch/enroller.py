"""Batch enrollment: a pipeline of decode, detect, embed and store for many photos.

The stages run in parallel: reading and detection in threads or processes, the network in another
thread with full batches, and the gallery writes in the caller's thread. Photos keep their order.
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
"""Batches that may be decoded and detected ahead of the network; limits memory."""


MOST_LOOKERS = 8
"""Most worker processes by default; each takes a third of a gigabyte."""


def lookers_and_threads(asked: int | None = None) -> tuple[int, int]:
    """Return the number of detection workers and of network threads.

    With the shipped model on a CPU, detection and the network take about as long, so each gets
    half of the cores, up to `MOST_LOOKERS`. More threads than cores would slow down each batch.
    With a lighter network or a GPU, more detection workers pay off.
    """
    count = processors()
    half = max(1, min(MOST_LOOKERS, count // 2))
    return asked or min(MOST_LOOKERS, count - count // 2), half


@dataclass(frozen=True, eq=False)
class _Looked:
    """A photo after detection: the chosen face, or the result of a failed photo."""

    item: Item
    digest: str
    face: DetectedFace | None = None
    problem: PhotoResult | None = None


class BatchEnroller:
    """Enrolls items with one context.

    Args:
        policy: How to choose the face: ``exactly_one`` refuses photos with several,
            ``largest_central`` takes the largest and most central.
        overrides: Reason by status for storing such photos anyway.
        workers: Photos decoded and detected at once; see :func:`lookers_and_threads`.
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
        """Enroll items; yields the report lines of each batch once it is stored.

        Raises:
            FaceError: The gallery, index or calibration is not available. The lines of all photos
                stored before were already yielded.
        """
        with (
            lookers(self.context.pipeline, self.policy, len(items), self.workers) as look,
            # One extra thread reads and hashes the next photo while all workers are busy.
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
        """Return the result of a photo whose exact content is stored; None if it is new."""
        stored = self.context.gallery.reader.photos_with_hash(digest)
        if not stored:
            return None
        owners = self.context.gallery.reader.get_many([photo.person_id for photo in stored])
        names = [
            owners[photo.person_id].name if photo.person_id in owners else "someone"
            for photo in stored
        ]
        # A group photo may be stored for several people, including this one.
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
            # Commit after each person: the enrollment checks see only committed people, and must
            # see the ones just stored.
            for name, group in by_person:
                lines += self._store_person(name, list(group))
        except FaceError:
            # The people before the failure are stored, so the report must list them.
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
            # Not a problem of these photos: end the run, as when the search engine is down.
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
        """Report the second copy of a person's photo as ``already`` stored, not ``duplicate``."""
        if result.status != "duplicate":
            return result
        if self.dry_run and "person_id" not in result.details:
            return replace(result, status="already")
        return self._known(looked.item, looked.digest) or result

    def _stored(self, name: str, prepared: list[Prepared], item: Item) -> Enrollment:
        known = self._ids.get(name)
        # Existing people keep their metadata; app.batch.metadata adds what is missing.
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
                results.append(enroll_photos.accepted(each, None, name, {}))
        return results


def _for_batches(result: PhotoResult) -> PhotoResult:
    """Reword ``several_faces``: in a batch the user cannot pick a face, but can use ``--faces``."""
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
