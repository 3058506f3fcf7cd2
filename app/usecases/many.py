"""Many photos at once: verify pairs, and cluster photos by person."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from app.context import Context
from app.usecases.pipeline import only_face
from app.usecases.progress import Progress, stop_if_asked
from app.usecases.results import DetectedFace
from model import wording
from model.errors import FaceError, SeveralFaces
from model.types import Verdict

COLUMNS = ("first", "second", "decision", "strength", "score", "fmr", "headline", "error")
"""Columns of the output CSV; the first two are copied from the input."""

BATCH = 32


@dataclass(frozen=True)
class Pair:
    """The names of two photos to compare."""

    first: str
    second: str


@dataclass(frozen=True, eq=False)
class _Known:
    """What is kept of a photo: its face's vector and quality, and the hash of the file."""

    vector: np.ndarray
    quality: float
    digest: bytes


@dataclass(frozen=True)
class PairAnswer:
    """The result of a pair: a verdict, or an error code from :mod:`model.errors`."""

    pair: Pair
    verdict: Verdict | None
    same_file: bool = False
    error: str = ""
    message: str = ""

    @property
    def headline(self) -> str:
        if self.verdict is None:
            return self.message
        return wording.SAME_FILE if self.same_file else wording.headline(self.verdict)

    def row(self) -> dict[str, str | float]:
        """Return the result as a CSV row; numbers are rounded."""
        row: dict[str, str | float] = dict.fromkeys(COLUMNS, "") | {
            "first": self.pair.first, "second": self.pair.second, "headline": self.headline,
            "error": self.error,
        }  # fmt: skip
        if self.verdict is None:
            return row
        return row | {
            "decision": self.verdict.decision,
            "strength": "weak" if self.same_file else wording.strength(self.verdict),
            "score": round(self.verdict.score, 4),
            "fmr": float(f"{self.verdict.fmr.value:.3g}"),
        }


def verify_many(
    context: Context,
    pairs: Sequence[Pair],
    read: Callable[[str], bytes],
    *,
    target_fmr: float | None = None,
    cancel: threading.Event | None = None,
) -> Iterator[PairAnswer]:
    """Compare pairs one after another; each photo is processed only once.

    Args:
        read: Returns a photo's bytes, given its name.
    """
    calibration = context.need_calibration()
    target = context.settings.target_fmr if target_fmr is None else target_fmr
    known: dict[str, _Known | FaceError] = {}
    for pair in pairs:
        stop_if_asked(cancel, "Stopped; the pairs before are answered.")
        for name in (pair.first, pair.second):
            if name not in known:
                known[name] = _known(context, name, read)
        a, b = known[pair.first], known[pair.second]
        if isinstance(a, FaceError) or isinstance(b, FaceError):
            failed = a if isinstance(a, FaceError) else b
            yield PairAnswer(pair, None, error=failed.code, message=failed.message)
            continue
        score = float(np.clip(a.vector @ b.vector, -1, 1))
        verdict = calibration.decide(score, target, quality=min(a.quality, b.quality))
        same_file = a.digest == b.digest or (score > 0.99 and _same_pixels(context, pair, read))
        yield PairAnswer(pair, verdict, same_file=same_file)


def _known(context: Context, name: str, read: Callable[[str], bytes]) -> _Known | FaceError:
    try:
        data = read(name)
        face = only_face(context.pipeline.photo(data), None, repr(name))
    except SeveralFaces as error:
        count = error.details["count"]
        return SeveralFaces(f"There are {count} faces in {name!r}; cut it to the one you mean.")
    except FaceError as error:
        return error
    digest = hashlib.sha256(data).digest()
    return _Known(context.pipeline.embed([face])[0], face.quality.score, digest)


def _same_pixels(context: Context, pair: Pair, read: Callable[[str], bytes]) -> bool:
    """Read two photos again, which look as alike as copies, and compare their pixels."""
    first, second = (context.pipeline.photo(read(each)) for each in (pair.first, pair.second))
    return first.picture.shape == second.picture.shape and np.array_equal(first.image, second.image)


@dataclass(frozen=True, eq=False)
class Clustered:
    """Photos grouped by person.

    Attributes:
        groups: Photo names, one group per person, largest group first.
        crops: Face crop by photo name.
        failed: Photos without a usable face, with the reason.
    """

    groups: tuple[tuple[str, ...], ...]
    crops: dict[str, np.ndarray]
    failed: tuple[tuple[str, str], ...]


def cluster(
    context: Context,
    photos: Sequence[str],
    read: Callable[[str], bytes],
    *,
    target_fmr: float | None = None,
    progress: Progress | None = None,
) -> Clustered:
    """Group photos of unknown people by person, using the calibrated threshold.

    Groups are joined by their average score, so one false match does not merge two people.
    """
    faces: list[tuple[str, DetectedFace]] = []
    failed = []
    for done, name in enumerate(photos):
        if progress:
            progress("Looking at the photos", done, len(photos))
        try:
            faces.append((name, only_face(context.pipeline.photo(read(name)), None, repr(name))))
        except FaceError as error:
            failed.append((name, error.message))
    vectors = np.concatenate(
        [context.pipeline.embed([face for _, face in faces[at : at + BATCH]])
         for at in range(0, max(1, len(faces)), BATCH)]
    )  # fmt: skip
    target = context.settings.target_fmr if target_fmr is None else target_fmr
    limit = context.need_calibration().threshold(target).threshold
    groups = [tuple(faces[place][0] for place in group) for group in _groups(vectors, limit)]
    groups.sort(key=lambda group: (-len(group), group))
    crops = {name: face.crop for name, face in faces}
    return Clustered(tuple(groups), crops, tuple(failed))


def _groups(vectors: np.ndarray, limit: float) -> list[list[int]]:
    """Average linkage: join the two most similar groups until no pair reaches the limit."""
    from scipy.cluster.hierarchy import fcluster, linkage

    if len(vectors) < 2:
        return [[place] for place in range(len(vectors))]
    distances = 1 - (vectors @ vectors.T)[np.triu_indices(len(vectors), 1)]
    labels = fcluster(linkage(np.clip(distances, 0, 2), "average"), 1 - limit, "distance")
    return [list(np.flatnonzero(labels == label)) for label in np.unique(labels)]
