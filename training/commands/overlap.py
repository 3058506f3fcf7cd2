"""``python -m training overlap``: who of one collection is in another as well?

Figures on a benchmark are clean only when none of its people were trained on. Names do not
tell (some collections have none), faces do: each person's mean vector, and each loose face, is
held against every face of the benchmark with a strong embedder. How many were found is printed;
the list that is saved goes straight into ``--exclude``. Strangers are compared with every face of
the benchmark too, so the default limit lies above the embedder's own threshold for one pair; what
it misses depends on the embedder, and is for you to measure.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from model.bundle import Bundle
from model.embedding.embedder import Embedder
from model.errors import FaceError
from model.faces.image import SUFFIXES
from training.datasets.face_set import named, read_root
from training.distill.overlap import overlapping
from training.distill.teacher import teacher_targets
from training.inputs.crops import aligned_crops


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--teacher", type=Path, required=True, help="bundle to compare with")
    parser.add_argument("--people", type=Path, nargs="*", default=[], help="one folder a person")
    parser.add_argument("--loose", type=Path, nargs="*", default=[], help="unknown people")
    parser.add_argument(
        "--photos", type=Path, nargs="*", default=[], help="unknown people, to be aligned"
    )
    parser.add_argument("--against", type=Path, required=True, help="photos of the benchmark")
    parser.add_argument("--limit", type=float, default=0.5, help="cosine of one person")
    parser.add_argument("--out", type=Path, required=True, help="list to write")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def run(args: argparse.Namespace) -> int:
    embedder = Embedder(Bundle.load(args.teacher))
    photos = sorted(p for p in args.against.rglob("*") if p.suffix.lower() in SUFFIXES)
    if not photos:
        raise FaceError(f"--against {args.against} holds no pictures.")
    crops, found = aligned_crops(photos, cache=args.cache)
    if not found.any():
        raise FaceError(f"No face was found in any picture of --against {args.against}.")
    others = teacher_targets(embedder, crops, cache=args.cache)[found]
    matches: dict[str, float] = {}
    benchmark = named(args.against).name
    for root in [*args.people, *args.loose, *args.photos]:
        faces, names = read_root(
            root, root not in args.people, args.cache, aligned=root not in args.photos
        )
        vectors = teacher_targets(embedder, faces, cache=args.cache)
        here = overlapping(vectors, np.array(names), others, args.limit)
        print(f"{named(root).name}: {len(here)} of {len(set(names)):,} are in {benchmark}")
        matches |= here
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(f"{name}\n" for name in sorted(matches)))
    return 0
