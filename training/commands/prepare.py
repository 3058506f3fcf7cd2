"""``python -m training prepare``: align the faces of photos and store the teachers' vectors.

The same command resumes a stopped run. ``distill``, ``overlap`` and ``fit`` read the result. The
main face of each photo is used, if the detector is certain of it.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from model.arguments import positive
from model.errors import FaceError
from training.distill.store import prepare


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--photos", type=Path, required=True, help="folder of photos")
    parser.add_argument(
        "--teachers", type=Path, nargs="+", required=True, help="ONNX graphs of 112 px embedders"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder of the store")
    parser.add_argument(
        "--people", metavar="COLLECTION",
        help="the folders name people of this collection; without, people are unknown",
    )  # fmt: skip
    parser.add_argument(
        "--depth", type=positive, default=1, help="how many folders name a person (1)"
    )


def run(args: argparse.Namespace) -> int:
    for teacher in args.teachers:
        if not teacher.is_file():
            raise FaceError(f"There is no file {teacher}.")
    prepare(args.photos, args.teachers, args.out, people=args.people, depth=args.depth)
    return 0
