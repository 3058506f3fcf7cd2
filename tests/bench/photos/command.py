"""Answers on photos as people have them: whole, and cut close around the face.

``--people DevTrain`` is for development; DevTest people are reported on. Pairs of one person are
drawn at random, two photos of each person. ``--plain`` shows facenet-pytorch's own cascade beside
ours on the same pictures; ``--held-out`` tries ``calibrate --adapt`` on people of a collection.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from model.bundle import DEFAULT, Bundle
from model.calibration.check import check_promises
from model.embedding.embedder import Embedder
from model.faces.detect import Detector
from model.faces.image import load_image
from model.types import Face
from tests.bench._lfw import lfw_photos
from tests.bench.photos.adapting import adapting_rows
from tests.bench.photos.finding import finding_rows
from tests.bench.photos.framing import (
    CLOSE,
    MARGINS,
    TABLE_HEAD,
    WHOLE,
    Camera,
    Pair,
    Plain,
    Shots,
    arrays,
    draw_pairs,
    table_row,
)
from training.inputs.photo_kinds import close_box
from training.measure.discards import SINGLE, discard_table
from training.report.promises import promise_table

MOST_FOUND = 200
"""Most photos tried in every size and roll."""


def main(argv: list[str]) -> int:
    """Print what is answered in each framing, promises kept, and errors against discards."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench photos", description=__doc__)
    parser.add_argument("--lfw", type=Path, help="the folder with lfw_funneled/ and the lists")
    parser.add_argument("--people", choices=["DevTrain", "DevTest"], default="DevTrain")
    parser.add_argument("--bundle", type=Path, default=DEFAULT)
    parser.add_argument("--pairs", type=int, default=100, help="people, two photos each (100)")
    parser.add_argument("--target", type=float, default=1e-4, help="false-match rate (1e-4)")
    parser.add_argument("--plain", action="store_true", help="facenet-pytorch's cascade too")
    parser.add_argument(
        "--held-out", type=Path, nargs="*", default=[], metavar="FOLDER",
        help="folders of other people (a folder a person): try --adapt on those held out",
    )  # fmt: skip
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    args = parser.parse_args(argv)
    bundle = Bundle.load(args.bundle)
    embedder = Embedder(bundle)
    paths = lfw_photos(args.lfw, people=f"people{args.people}.txt")
    if args.held_out:
        rows = adapting_rows(bundle.calibration, embedder, args.held_out, paths, args.cache)
        for line in rows:
            print(line, flush=True)
        return 0
    pairs = draw_pairs(paths, args.pairs)
    print(f"{len(pairs)} pairs of one person, LFW {args.people}, target {args.target:g}")
    detector = Detector()
    cameras = {"ours": Camera(detector.detect, embedder, all_faces_count=False)}
    if args.plain:
        cameras["plain"] = Camera(Plain().detect, embedder, all_faces_count=True)
    shots, photos = shoot(cameras, pairs)
    for name, camera in cameras.items():
        print(f"\n{name}: detection {1e3 * np.median(camera.seconds):.0f} ms of processor time")
        print(TABLE_HEAD)
        for margin in MARGINS:
            print(table_row(margin, shots[name][margin], bundle.calibration, args.target))
        for margin in (WHOLE, CLOSE):
            vectors, labels, measured = arrays(shots[name][margin])
            print(f"\n{name}, margin {margin}: {len(labels)} photos, all pairs of them")
            print(promise_table(check_promises(bundle.calibration, vectors, labels)))
            print(f"misses at FMR 1e-3 when the poorest photos are discarded ({margin})")
            print(discard_table(vectors, labels, measured, ("score", *SINGLE)))
        print(f"\n{name}: {len(camera.several)} of {len(camera.seconds)} photos have several faces")
        print(*(path.name for path in camera.several))
    print(f"\nours, {len(photos)} photos, main face")
    for line in finding_rows(detector, photos):
        print(line, flush=True)
    return 0


def shoot(
    cameras: dict[str, Camera], pairs: list[Pair]
) -> tuple[dict[str, dict[str, Shots]], list[tuple[np.ndarray, Face]]]:
    """Every camera's shots by margin, and the first photos with the face of our detector."""
    rng = np.random.default_rng(0)
    shots: dict[str, dict[str, list]] = {
        name: {margin: [[] for _ in pairs] for margin in (*MARGINS, CLOSE)} for name in cameras
    }
    photos: list[tuple[np.ndarray, Face]] = []
    for number, pair in enumerate(pairs):
        for path in pair:
            image = load_image(path)
            ours = cameras["ours"].whole(image, path)
            if ours is None:
                raise SystemExit(f"{path} has no face: no frame can be cut around it.")
            if len(photos) < MOST_FOUND:
                photos.append((image, ours))
            margins = {**MARGINS, CLOSE: float(rng.uniform(0, 0.3))}
            for name, camera in cameras.items():
                truth = ours if name == "ours" else camera.whole(image, path)
                for margin, share in margins.items():
                    if truth is None:
                        shot = None
                    elif share is None:
                        shot = camera.shoot(image, truth)
                    else:
                        shot = camera.cut(image, close_box(image, ours, share), truth)
                    shots[name][margin][number].append(shot)
    return shots, photos
