"""``python -m training sizes``: what a larger input buys, and what it costs.

One network at several input sizes, with and without the mirror image, judged by people no run
trains on and by the milliseconds a face takes on this machine. A network is at its best near the
size it was trained at, so a size that looks good here deserves a stage of ``distill`` of its own.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median

import numpy as np

from model.bundle import Bundle, save_network
from model.embedding.embedder import Embedder
from training.datasets.face_set import check_held_out, load_faces
from training.errors import UsageError
from training.measure import metrics

REPEATS = 15
SMALLEST = 32


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--bundle", type=Path, required=True)
    parser.add_argument(
        "--people", type=Path, nargs="+", required=True, help="aligned faces, one folder a person"
    )
    parser.add_argument("--exclude", type=Path, help="text file of people to leave out")
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 80, 96, 112])
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def run(args: argparse.Namespace) -> int:
    if min(args.sizes) < SMALLEST:
        raise UsageError(f"--sizes {min(args.sizes)} is too small; give {SMALLEST} pixels or more.")
    bundle = Bundle.load(args.bundle)
    _, faces = load_faces(args.people, exclude=args.exclude, cache=args.cache)
    check_held_out(faces)
    print(
        f"{bundle.name} {bundle.model_id[:12]}, {len(faces):,} faces of "
        f"{len(np.unique(faces.labels)):,} people no run trains on; 95% intervals\n\n"
        "| input | mirror | d' | EER | ms, one face | ms a face, 32 |\n|---|---|---|---|---|---|"
    )
    for size, flip in product(args.sizes, (False, True)):
        with tempfile.TemporaryDirectory() as folder:
            preprocessing = replace(bundle.preprocessing, input_size=size, flip=flip)
            changed = save_network(
                Path(folder) / "bundle", bundle.network(), preprocessing, name=bundle.name, card=""
            )
            embedder = Embedder(changed)
            vectors = embedder.embed(np.array(faces.crops))
        figures = metrics.evaluate(vectors, faces.labels)["metrics"]
        d_prime, eer = (
            "{value:{style}} [{low:{style}}, {high:{style}}]".format(style=style, **figures[name])
            for name, style in (("d_prime", ".2f"), ("eer", ".1%"))
        )
        one, many = (_milliseconds(embedder, faces.crops[:count]) for count in (1, 32))
        print(
            f"| {size} px | {'yes' if flip else 'no'} | {d_prime} | {eer} | {one:.1f} "
            f"| {many:.1f} |",
            flush=True,
        )
    return 0


def _milliseconds(embedder: Embedder, crops: np.ndarray) -> float:
    """Of one face, when that many are embedded at once."""
    times = []
    for _ in range(REPEATS):
        started = time.perf_counter()
        embedder.embed(np.array(crops))
        times.append(1000 * (time.perf_counter() - started))
    return median(times) / len(crops)
