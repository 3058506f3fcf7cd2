"""Pairs of photos in several framings, seen by our detector and by plain MTCNN.

Both detectors get the same pictures, cut to the box that ours finds in the whole photo, and feed
the same network, quality score and calibration. So what differs is detection alone.
"""

from __future__ import annotations

import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from facenet_pytorch import MTCNN
from PIL import Image

from model.calibration import Calibration
from model.embedding.embedder import Embedder
from model.faces.align import align
from model.faces.detect import MIN_FACE, candidates, main_face
from model.faces.quality import assess
from model.types import Face, Quality

WHOLE, CLOSE = "whole", "0 to 30%"
MARGINS: dict[str, float | None] = {WHOLE: None, "20%": 0.2, "10%": 0.1, "0": 0.0}
"""By name: the margin around the face's box, as a share of its side; None for no cut."""

OFF = 0.1
"""Landmarks this share of the face's size from where the whole photo has them are off."""

Detect = Callable[[np.ndarray], list[Face]]
Pair = tuple[Path, Path]


class Plain:
    """facenet-pytorch's own cascade, which version 0.1 used."""

    def __init__(self) -> None:
        self._mtcnn = MTCNN(keep_all=True, min_face_size=MIN_FACE)

    def detect(self, image: np.ndarray) -> list[Face]:
        """All faces; each counts as certain, as it did in version 0.1."""
        boxes, scores, points = self._mtcnn.detect(Image.fromarray(image), landmarks=True)
        if boxes is None:
            return []
        return [
            Face(tuple(map(float, box)), np.array(point, np.float32), float(score))
            for box, score, point in zip(boxes, scores, points, strict=True)
        ]


@dataclass(frozen=True, eq=False)
class Shot:
    """The main face of one picture.

    Attributes:
        quality: Its quality.
        vector: Its unit vector.
        off: How far a landmark lies from where the whole photo has it, in sides of the face.
    """

    quality: Quality
    vector: np.ndarray
    off: float


class Camera:
    """Detects, aligns, assesses and embeds.

    Attributes:
        seconds: Processor time of detection in whole photos, one entry each.
        several: Whole photos with more than one face, one entry each.
    """

    def __init__(self, detect: Detect, embedder: Embedder, *, all_faces_count: bool) -> None:
        self._detect, self._embedder, self._all = detect, embedder, all_faces_count
        self.seconds: list[float] = []
        self.several: list[Path] = []

    def whole(self, image: np.ndarray, path: Path) -> Face | None:
        """The main face of a whole photo."""
        start = time.process_time()
        faces = self._detect(image)
        self.seconds.append(time.process_time() - start)
        if len(faces if self._all else candidates(faces, image.shape)) > 1:
            self.several.append(path)
        return main_face(faces, image.shape) if faces else None

    def shoot(self, image: np.ndarray, face: Face) -> Shot:
        """A face already found."""
        crop = align(image, face.landmarks)
        return Shot(assess(image, face, crop), self._embedder.embed(crop[None])[0], 0.0)

    def cut(self, image: np.ndarray, box: Sequence[int], truth: Face) -> Shot | None:
        """The main face of a part of a photo; None if none is found."""
        left, top, right, bottom = box
        part = np.ascontiguousarray(image[top:bottom, left:right])
        faces = self._detect(part)
        if not faces:
            return None
        face = main_face(faces, part.shape)
        moved = np.linalg.norm(
            face.landmarks + np.array([left, top]) - truth.landmarks, axis=1
        ).max()
        shot = self.shoot(part, face)
        return Shot(shot.quality, shot.vector, float(moved) / truth.area**0.5)


Shots = Sequence[Sequence[Shot | None]]
"""For each pair of photos, the face of each; None where none was found."""


def draw_pairs(photos: Sequence[Path], count: int) -> list[Pair]:
    """Two photos each of ``count`` people who have that many, always the same ones."""
    people: dict[str, list[Path]] = defaultdict(list)
    for photo in photos:
        people[photo.parent.name].append(photo)
    several = sorted(name for name, found in people.items() if len(found) > 1)
    rng = random.Random(0)
    drawn = rng.sample(several, min(count, len(several)))
    return [tuple(rng.sample(people[name], 2)) for name in drawn]


def table_row(name: str, pairs: Shots, calibration: Calibration, target: float) -> str:
    """Landmarks off, and what is answered about each pair of one person."""
    answers: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    poor = 0
    for first, second in pairs:
        if first is None or second is None:
            answers["no face"] += 1
            continue
        quality = min(first.quality.score, second.quality.score)
        score = float(first.vector @ second.vector)
        verdict = calibration.decide(score, target, quality=quality)
        answers[verdict.decision] += 1
        plain = calibration.decide(score, target)
        poor += verdict.decision == "inconclusive" != plain.decision
    shots = list(found(pairs))
    for shot in shots:
        reasons.update(reason.code for reason in shot.quality.reasons)
    off = np.mean([shot.off >= OFF for shot in shots])
    counted = ", ".join(f"{code} {count}" for code, count in reasons.most_common())
    return (
        f"{name:12} {off:14.1%} {answers['same']:5} {answers['inconclusive']:13} "
        f"{answers['different']:10} {answers['no face']:8} {poor:12}  {counted or 'none'}"
    )


TABLE_HEAD = (
    f"{'margin':12} {'landmarks off':>14} {'same':>5} {'inconclusive':>13} {'different':>10} "
    f"{'no face':>8} {'for quality':>12}  reasons, in photos"
)


def found(pairs: Shots) -> Iterator[Shot]:
    """The faces that were found."""
    return (shot for pair in pairs for shot in pair if shot is not None)


def arrays(pairs: Shots) -> tuple[np.ndarray, np.ndarray, Mapping[str, np.ndarray]]:
    """Vectors, people and everything measured of the photos with a face."""
    shots = list(found(pairs))
    labels = [number for number, pair in enumerate(pairs) for shot in pair if shot is not None]
    measured = {
        name: np.array([shot.quality.measures[name] for shot in shots])
        for name in shots[0].quality.measures
    }
    measured["score"] = np.array([shot.quality.score for shot in shots])
    return np.stack([shot.vector for shot in shots]), np.array(labels), measured
