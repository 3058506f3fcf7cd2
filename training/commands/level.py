"""``python -m training level``: reduce false matches between strangers of the same group.

Strangers of a group that a model has seen little of, above all small children, look alike to it:
their vectors share a direction that encodes the group, not the person. This command finds the
leading directions of the groups' mean vectors and projects them out. The result is a new bundle of
the same kind; calibrate it before use. Directions and thresholds come from one half of the faces
(by hashed name), the printed rates from the other half. Use ``evaluate`` to measure what it costs
in accuracy.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from model.arguments import positive
from model.bundle import Bundle
from model.bundle.files import fresh_folder
from model.embedding.embedder import Embedder
from model.embedding.network import TRUNKS
from model.errors import BundleError
from training.datasets.face_set import held_out, named, read_root
from training.distill.levelling import (
    FEWEST,
    MOST,
    TARGET,
    group_directions,
    middle_threshold,
    project,
    projection,
)
from training.errors import UsageError
from training.learn.inference import embed_crops
from training.measure.subgroup_errors import false_match_rate
from training.report.markdown import rate_in_words

SAME = 0.999
"""Lowest accepted cosine between the written bundle's vectors and those that were measured."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--bundle", type=Path, required=True, help="the model to level")
    parser.add_argument(
        "--faces", type=Path, nargs="*", default=[],
        help="aligned faces, one folder a group, each face of another person; folders of one "
        "name are one group",
    )  # fmt: skip
    parser.add_argument(
        "--photos", type=Path, nargs="*", default=[], help="the same, of photos to be aligned"
    )
    parser.add_argument("--directions", type=positive, default=4, help="how many to take out")
    parser.add_argument("--out", type=Path, required=True, help="bundle to write")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def run(args: argparse.Namespace) -> int:
    roots = [*args.faces, *args.photos]
    if not roots:
        raise UsageError("Give --faces or --photos, folders with a folder for each group.")
    if len({root.resolve() for root in roots}) < len(roots):
        raise UsageError("A folder is given twice. Give each once.")
    if args.out.resolve() == args.bundle.resolve():
        raise UsageError("--out is the same as --bundle, whose calibration would be lost.")
    bundle = Bundle.load(args.bundle)
    if bundle.architecture is not None and bundle.architecture.trunk not in TRUNKS:
        raise BundleError(
            f"{bundle.name} is a {bundle.architecture.trunk}, which cannot be levelled here; "
            "import it as an ONNX file (python -m model import)."
        )
    with fresh_folder(args.out) as draft:
        model_id = _level(args, bundle, draft).model_id
    print(f"wrote {args.out}, model {model_id[:12]}; calibrate it before use")
    return 0


def _level(args: argparse.Namespace, bundle: Bundle, draft: Path) -> Bundle:
    """Find the directions, write the bundle and print the rates of each group."""
    crops, groups, learning = _faces(args.faces, args.photos, args.cache)
    vectors = embed_crops(Embedder(bundle, engine="fp32"), crops)
    heard = _heard(groups, learning)
    if len(heard) < args.directions or args.directions >= vectors.shape[1]:
        raise UsageError(
            f"--directions {args.directions} needs as many groups, with {FEWEST} faces or more in "
            f"either half, and a longer vector; there are {len(heard)} such groups and vectors "
            f"of {vectors.shape[1]}."
        )
    known = np.isin(groups, heard)
    fit, judge = np.flatnonzero(known & learning), np.flatnonzero(known & ~learning)
    matrix = projection(group_directions(vectors[fit], groups[fit], args.directions))
    levelled = vectors @ matrix
    levelled /= np.linalg.norm(levelled, axis=1, keepdims=True)
    about = {
        "bundle": bundle.model_id, "directions": args.directions, "faces": len(fit),
        "folders": [named(root).name for root in (*args.faces, *args.photos)], "groups": heard,
    }  # fmt: skip
    written = project(bundle, matrix, draft, about)
    again = Embedder(written, engine="fp32").embed(crops[judge[:8]])
    if (again * levelled[judge[:8]]).sum(1).min() < SAME:
        raise BundleError(f"{bundle.name} levelled gives other vectors than those measured.")
    _print_rates(vectors, levelled, groups, fit, judge)
    return written


def _faces(
    faces: Sequence[Path], photos: Sequence[Path], cache: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Crops, the group of each, and whether it is in the half used for fitting."""
    crops, groups, learning = [], [], []
    for root, aligned in [(root, True) for root in faces] + [(root, False) for root in photos]:
        pixels, names = read_root(root, cache, aligned=aligned)
        inside = [Path(name).parts[1:] for name in names]
        if outside := next((parts for parts in inside if len(parts) < 2), None):
            raise UsageError(f"{root / outside[0]} is not in the folder of a group.")
        crops.append(pixels)
        groups += [parts[0] for parts in inside]
        learning += [held_out(name, 0.5) for name in names]
    return np.concatenate(crops), np.array(groups), np.array(learning)


def _heard(groups: np.ndarray, learning: np.ndarray) -> list[str]:
    """The groups with enough faces in both halves; prints the others."""
    heard, few = [], []
    for name in np.unique(groups):
        in_learning, all_of_it = (groups[learning] == name).sum(), (groups == name).sum()
        enough = min(in_learning, all_of_it - in_learning) >= FEWEST
        (heard if enough else few).append(str(name))
    if few:
        print(f"left out, fewer than {FEWEST} faces in a half: {', '.join(few)}")
    return heard


def _print_rates(
    before: np.ndarray, after: np.ndarray, groups: np.ndarray, fit: np.ndarray, judge: np.ndarray
) -> None:
    old, new = (middle_threshold(vectors[fit], groups[fit]) for vectors in (before, after))
    names = np.unique(groups[judge])
    width = max(len("group"), *map(len, names))
    print(
        f"Strangers of one group taken for one person, with 95% intervals, on {len(judge):,} faces "
        f"at the thresholds that {TARGET:g} of strangers reach in the middle group of the other "
        f"{len(fit):,} ({old:.3f} before, {new:.3f} after):\n\n"
        f"{'group':{width}}  faces  {'before':26}  after"
    )
    for name in names:
        rows = judge[groups[judge] == name][:MOST]
        rates = false_match_rate(before[rows], old), false_match_rate(after[rows], new)
        was, is_now = map(rate_in_words, rates)
        print(f"{name:{width}}  {len(rows):5,}  {was:26}  {is_now}")
