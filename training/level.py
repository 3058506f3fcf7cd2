"""``python -m training level``: take out of a model what strangers of a group have in common.

To a model that has seen few of them, strangers of one group look alike, small children most of
all: their vectors share a direction that says what they are, not who. This finds the few
directions that hold the mean vectors of the groups and projects them out. The result is a new
bundle of the same kind, to be calibrated before use or to be taught from (``distill --teacher``).
Directions and thresholds come from one half of the faces, by hashed name; the rates that are
printed were counted on the other. What it costs in telling people apart, ``evaluate`` tells.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.bundle import Bundle, save_graph, save_network
from model.bundle.files import fresh_folder
from model.embedding import onnx_graph
from model.embedding.embedder import Embedder
from model.embedding.network import TRUNKS, EmbeddingNet
from model.errors import BundleError
from training.card import rate_in_words
from training.errors import UsageError, positive
from training.faces import held_out, named, read_root
from training.teacher import teacher_targets
from training.weaknesses import false_match_rate

FEWEST, MOST = 30, 2000
"""Faces a group needs in either half to be heard, and those of it that are counted at most."""

TARGET = 1e-2
"""The share of stranger pairs that pass in the middle one of the groups."""

SAME = 0.999
"""Lowest cosine at which the bundle that was written gives the vectors that were judged."""


def group_directions(vectors: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """The orthonormal directions ``(count, D)`` that hold most of the groups' mean vectors.

    Args:
        vectors: Unit vectors ``(N, D)``.
        groups: ``(N,)``, equal for faces of one group; every group counts alike.
        count: How many, at most as many as there are groups.
    """
    means = np.stack([vectors[groups == group].mean(0) for group in np.unique(groups)])
    return np.linalg.svd(means, full_matrices=False)[2][:count]


def projection(directions: np.ndarray) -> np.ndarray:
    """The matrix ``(D, D)`` that takes some orthonormal directions out of a vector."""
    return np.eye(directions.shape[1]) - directions.T @ directions


def middle_threshold(vectors: np.ndarray, groups: np.ndarray) -> float:
    """The score that ``TARGET`` of the pairs of strangers reach in the middle one of the groups.

    Of an even number the group with more false matches counts as the middle one.

    Args:
        vectors: Unit vectors ``(N, D)``, each of another person.
        groups: ``(N,)``, equal for faces of one group.
    """
    own = []
    for group in np.unique(groups):
        members = vectors[groups == group][:MOST]
        scores = (members @ members.T)[np.triu_indices(len(members), 1)]
        own.append(float(np.quantile(scores, 1 - TARGET)))
    return sorted(own)[len(own) // 2]


def project(bundle: Bundle, matrix: np.ndarray, out: Path, about: Mapping[str, Any]) -> Bundle:
    """Write a bundle whose vectors are ``matrix`` times those of another, at unit length again.

    Args:
        bundle: An imported graph, or a network of ours.
        matrix: ``(D, D)``.
        out: Folder to create, or bundle to replace.
        about: What was done, for the provenance.
    """
    name = f"{bundle.name}-levelled"
    described: dict[str, Any] = {
        "name": name,
        "card": f"# {name}\n\n{bundle.name} ({bundle.model_id[:12]}) without "
        f"{about['directions']} directions that groups of people share. Calibrate before use.\n",
        "provenance": {"levelled": dict(about), "from": dict(bundle.provenance)},
    }
    if bundle.architecture is None:
        graph = onnx_graph.multiplied(bundle.graph(), matrix)
        return save_graph(out, graph, bundle.preprocessing, **described)
    net = multiplied(bundle.network(), torch.from_numpy(matrix).float())
    return save_network(out, net, bundle.preprocessing, **described)


def multiplied(net: EmbeddingNet, matrix: Tensor) -> EmbeddingNet:
    """A copy whose head gives ``matrix`` times what it gave.

    The head's batch norm keeps only an offset; statistics it had are part of the linear layer, so
    trained on with statistics of its own it would begin elsewhere.
    """
    result = copy.deepcopy(net).eval()
    linear, *norms = result.head
    with torch.no_grad():
        for norm in norms:
            scale = norm.weight / (norm.running_var + norm.eps).sqrt()
            linear.weight.mul_(scale[:, None])
            norm.running_mean.copy_(-matrix @ (norm.bias - scale * norm.running_mean))
            norm.running_var.fill_(1 - norm.eps)
            norm.weight.fill_(1)
            norm.bias.zero_()
        linear.weight.copy_(matrix @ linear.weight)
        if linear.bias is not None:
            linear.bias.copy_(matrix @ linear.bias)
    return result


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
        raise UsageError("A folder is given twice: its faces would meet themselves as strangers.")
    if args.out.resolve() == args.bundle.resolve():
        raise UsageError("--out is --bundle itself, whose calibration would be lost; name another.")
    bundle = Bundle.load(args.bundle)
    if bundle.architecture is not None and bundle.architecture.trunk not in TRUNKS:
        raise BundleError(
            f"{bundle.name} is a {bundle.architecture.trunk}, which cannot be levelled here; bring "
            "it as an ONNX file (python -m model import)."
        )
    with fresh_folder(args.out) as draft:
        model_id = _level(args, bundle, draft).model_id
    print(f"wrote {args.out}, model {model_id[:12]}; calibrate it before use")
    return 0


def _level(args: argparse.Namespace, bundle: Bundle, draft: Path) -> Bundle:
    """Learn, write and judge; prints what it does to each group."""
    crops, groups, learning = _faces(args.faces, args.photos, args.cache)
    vectors = teacher_targets(Embedder(bundle), crops, cache=args.cache)
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
    again = Embedder(written).embed(crops[judge[:8]])
    if (again * levelled[judge[:8]]).sum(1).min() < SAME:
        raise BundleError(f"{bundle.name} levelled gives other vectors than were judged.")
    _print_rates(vectors, levelled, groups, fit, judge)
    return written


def _faces(
    faces: Sequence[Path], photos: Sequence[Path], cache: Path
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Crops, the group of each, and whether it is in the half that is learnt from."""
    crops, groups, learning = [], [], []
    for root, aligned in [(root, True) for root in faces] + [(root, False) for root in photos]:
        pixels, names = read_root(root, True, cache, aligned=aligned)
        inside = [Path(name).parts[1:] for name in names]
        if outside := next((parts for parts in inside if len(parts) < 2), None):
            raise UsageError(f"{root / outside[0]} is in no folder of a group.")
        crops.append(pixels)
        groups += [parts[0] for parts in inside]
        learning += [held_out(name, 0.5) for name in names]
    return np.concatenate(crops), np.array(groups), np.array(learning)


def _heard(groups: np.ndarray, learning: np.ndarray) -> list[str]:
    """The groups with enough faces in both halves; says which have not."""
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
