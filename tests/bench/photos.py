"""Answers on photos as people have them: whole, and cut close around the face.

``--people DevTrain`` is for development; DevTest people are reported on. Pairs of one person are
drawn at random, two photos of each person. The figures quoted as "before" are those of the
version that used ``facenet_pytorch``'s cascade.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from model.bundle import DEFAULT, Bundle
from model.calibration import Calibration
from model.calibration.check import check_promises
from model.embedding.embedder import Embedder
from model.errors import NoFace
from model.faces.align import align
from model.faces.detect import Detector, choose
from model.faces.image import load_image
from model.faces.quality import assess
from model.types import Face, Quality
from tests.bench._lfw import lfw_photos
from training.inputs.photo_kinds import close_box
from training.measure.discards import SINGLE, discard_table
from training.report.promises import promise_table

BEFORE = {
    "whole photo": "0%, 96, 4",
    "20%": "0%, 93, 7",
    "10%": "2.5%, 72, 28",
    "0": "21%, 6, 92 (2 without a face)",
}
"""By margin: landmarks off, same, inconclusive, of 100 pairs."""

MARGINS: dict[str, float | None] = {"whole photo": None, "20%": 0.2, "10%": 0.1, "0": 0.0}
OFF = 0.1
"""Landmarks this share of the face's size from where the whole photo has them are off."""


@dataclass(frozen=True, eq=False)
class Shot:
    """One photo in one framing; ``off`` is how far its landmarks moved, in face sizes."""

    quality: Quality
    vector: np.ndarray
    off: float


def main(argv: list[str]) -> int:
    """Print the table of framings, promises on photos cut close, and errors against discards."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench photos", description=__doc__)
    parser.add_argument("--lfw", type=Path, help="the folder with lfw_funneled/ and the lists")
    parser.add_argument("--people", choices=["DevTrain", "DevTest"], default="DevTrain")
    parser.add_argument("--bundle", type=Path, default=DEFAULT)
    parser.add_argument("--pairs", type=int, default=100, help="people, two photos each (100)")
    parser.add_argument("--target", type=float, default=1e-4, help="false-match rate (1e-4)")
    args = parser.parse_args(argv)
    bundle = Bundle.load(args.bundle)
    calibration = bundle.calibration
    pairs = draw_pairs(lfw_photos(args.lfw, people=f"people{args.people}.txt"), args.pairs)
    camera = Camera(Embedder(bundle))
    print(f"{len(pairs)} pairs of one person, LFW {args.people}, target {args.target:g}")
    print(
        f"{'margin':12} {'landmarks off':>14} {'same':>5} {'inconclusive':>13} {'different':>10} "
        f"{'no face':>8}  before (off, same, inconclusive); reasons now"
    )
    whole: list[list[Shot | None]] = []
    for name, margin in MARGINS.items():
        shots = [[camera.shoot(path, margin) for path in pair] for pair in pairs]
        whole = whole or shots
        print(table_row(name, shots, calibration, args.target), flush=True)
    rng = np.random.default_rng(0)
    close = [[camera.shoot(path, rng.uniform(0, 0.3)) for path in pair] for pair in pairs]
    for title, shots in (("whole", whole), ("margin drawn from 0 to 30%", close)):
        vectors, labels, qualities = _arrays(shots)
        print(f"\n{title}: {len(labels)} photos, all pairs of them")
        print(promise_table(check_promises(calibration, vectors, labels)))
        print(f"\nmisses of 100 at FMR 1e-3 when the poorest photos are discarded ({title})")
        print(discard_table(vectors, labels, qualities, ("score", *SINGLE)))
    return 0


class Camera:
    """Detects, aligns, assesses and embeds one photo in one framing."""

    def __init__(self, embedder: Embedder) -> None:
        self.embedder = embedder
        self.detector = Detector()

    def shoot(self, path: Path, margin: float | None) -> Shot | None:
        """The photo cut to its face's box plus ``margin``, or whole; None if no face is found."""
        image = load_image(path)
        faces = self.detector.detect(image)
        if not faces:
            return None
        (truth,) = choose(faces, "largest_central", image.shape)
        if margin is None:
            return self._shot(image, truth, 0.0)
        left, top, right, bottom = close_box(image, truth, margin)
        cut = np.ascontiguousarray(image[top:bottom, left:right])
        try:
            (face,) = choose(self.detector.detect(cut), "largest_central", cut.shape)
        except NoFace:
            return None
        moved = np.linalg.norm(
            face.landmarks + np.array([left, top]) - truth.landmarks, axis=1
        ).max()
        return self._shot(cut, face, float(moved) / truth.area**0.5)

    def _shot(self, image: np.ndarray, face: Face, off: float) -> Shot:
        crop = align(image, face.landmarks)
        return Shot(assess(image, face, crop), self.embedder.embed(crop[None])[0], off)


def draw_pairs(photos: list[Path], count: int) -> list[tuple[Path, Path]]:
    """Two photos each of ``count`` people who have that many, always the same ones."""
    people: dict[str, list[Path]] = defaultdict(list)
    for photo in photos:
        people[photo.parent.name].append(photo)
    several = sorted(name for name, found in people.items() if len(found) > 1)
    rng = random.Random(0)
    chosen = rng.sample(several, min(count, len(several)))
    return [tuple(rng.sample(people[name], 2)) for name in chosen]


def table_row(
    name: str, pairs: list[list[Shot | None]], calibration: Calibration, target: float
) -> str:
    """Landmarks off, and what is answered about each pair of one person."""
    answers: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    poor = 0
    for pair in pairs:
        first, second = pair
        if first is None or second is None:
            answers["no face"] += 1
            continue
        quality = min(first.quality.score, second.quality.score)
        score = float(first.vector @ second.vector)
        verdict = calibration.decide(score, target, quality=quality)
        answers[verdict.decision] += 1
        plain = calibration.decide(score, target)
        poor += verdict.decision == "inconclusive" != plain.decision
    shots = list(_found(pairs))
    for shot in shots:
        reasons.update(reason.code for reason in shot.quality.reasons)
    off = np.mean([shot.off >= OFF for shot in shots])
    counted = ", ".join(f"{code} {count}" for code, count in reasons.most_common())
    return (
        f"{name:12} {off:14.1%} {answers['same']:5} {answers['inconclusive']:13} "
        f"{answers['different']:10} {answers['no face']:8}  {BEFORE[name]}; "
        f"{poor} inconclusive for quality alone; of {len(shots)} photos {counted or 'none'}"
    )


def _found(pairs: list[list[Shot | None]]) -> Iterator[Shot]:
    return (shot for pair in pairs for shot in pair if shot is not None)


def _arrays(
    pairs: list[list[Shot | None]],
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Vectors, people and everything measured of the photos with a face."""
    shots = list(_found(pairs))
    labels = [number for number, pair in enumerate(pairs) for shot in pair if shot is not None]
    measured = {
        name: np.array([shot.quality.measures[name] for shot in shots])
        for name in shots[0].quality.measures
    }
    measured["score"] = np.array([shot.quality.score for shot in shots])
    return np.stack([shot.vector for shot in shots]), np.array(labels), measured
