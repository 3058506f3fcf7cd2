"""``python -m training overlap``: find training people who are also in a benchmark.

Results on a benchmark are valid only if none of its people were trained on. Names are not enough,
as some collections have none. So each face, and the mean vector of each known person, is compared
with every face of the benchmark. Pass the resulting list to ``distill --left-out``. Each stranger
is compared with many faces, so ``--limit`` must be above the teachers' threshold for a single pair.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from training.distill.overlap import overlapping
from training.distill.stored_faces import StoredFaces


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--faces", type=Path, nargs="+", required=True, help="prepared stores")
    parser.add_argument("--against", type=Path, required=True, help="store of the benchmark")
    parser.add_argument("--limit", type=float, default=0.5, help="cosine of one person (0.5)")
    parser.add_argument("--out", type=Path, required=True, help="list to write")


def run(args: argparse.Namespace) -> int:
    others = _unit(StoredFaces.open([args.against]))
    matches: dict[str, float] = {}
    for folder in args.faces:
        faces = StoredFaces.open([folder])
        vectors = _unit(faces)
        known = faces.people != ""
        by_face = overlapping(vectors, faces.files, others, args.limit)
        found = dict(by_face)
        if known.any():
            people = dict(zip(faces.files, faces.people, strict=True))
            found = {people[name]: score for name, score in by_face.items()}
            found |= overlapping(vectors[known], faces.people[known], others, args.limit)
        count = len(set(faces.people if known.any() else faces.files))
        print(f"{folder.name}: {len(found):,} of {count:,} are in {args.against.name}")
        matches |= found
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text("".join(f"{name}\n" for name in sorted(matches)))
    return 0


def _unit(faces: StoredFaces) -> np.ndarray:
    vectors = np.concatenate([np.asarray(part) for store in faces.stores for part in store.vectors])
    vectors = vectors.astype(np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
