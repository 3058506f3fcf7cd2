"""``python -m training level``: take out of a model what tells groups of people apart.

To a model that has seen few of them, strangers of one group look alike, small children most of
all: their vectors share a direction that says what they are, not who. This finds the few
directions that hold the mean vectors of the groups and projects them out. The result is a new
bundle of the same kind, to be calibrated before use or to be taught from (``distill --teacher``).
What it does to each group is printed, on faces of a fixed half that the directions were not
learnt from.
"""

from __future__ import annotations

import argparse
import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from model import onnx_graph
from model.bundle import Bundle, save_graph, save_network
from model.embedder import Embedder
from model.network import EmbeddingNet
from training.errors import UsageError, positive
from training.faces import read_root
from training.start import bundle_architecture
from training.teacher import teacher_targets
from training.weaknesses import false_match_rate

FEWEST = 30
"""Faces a group needs in either half to be heard, or judged."""

TARGET = 1e-2
"""The share of stranger pairs that pass in the middle one of the groups."""


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

    Args:
        vectors: Unit vectors ``(N, D)``, each of another person.
        groups: ``(N,)``, equal for faces of one group.
    """
    own = []
    for group in np.unique(groups):
        members = vectors[groups == group]
        own.append((members @ members.T)[np.triu_indices(len(members), 1)])
    return float(np.median([np.quantile(scores, 1 - TARGET) for scores in own]))


def project(bundle: Bundle, matrix: np.ndarray, out: Path) -> Bundle:
    """A bundle whose vectors are ``matrix`` times those of another, at unit length again."""
    name = f"{bundle.name}-levelled"
    about = {
        "card": f"# {name}\n\n{bundle.name} ({bundle.model_id[:12]}) without "
        f"{len(matrix) - round(np.trace(matrix))} directions in which groups of people differ. "
        "Calibrate before use.\n",
        "provenance": dict(bundle.provenance) | {"levelled from": bundle.model_id},
    }
    if bundle.architecture is None:
        graph = onnx_graph.multiplied(bundle.graph(), matrix)
        return save_graph(out, graph, bundle.preprocessing, name=name, **about)
    bundle_architecture(str(bundle.path))
    net = turned(bundle.network(), torch.from_numpy(matrix).float())
    return save_network(out, net, bundle.preprocessing, name=name, **about)


def turned(net: EmbeddingNet, matrix: Tensor) -> EmbeddingNet:
    """A copy for inference whose head gives ``matrix`` times what it gave."""
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
        help="aligned faces, one folder a group, each face of another person",
    )  # fmt: skip
    parser.add_argument(
        "--photos", type=Path, nargs="*", default=[], help="the same, of photos to be aligned"
    )
    parser.add_argument(
        "--directions", type=positive, default=4, help="how many to take out; few cost little"
    )
    parser.add_argument("--out", type=Path, required=True, help="bundle to write")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def run(args: argparse.Namespace) -> int:
    if not (args.faces or args.photos):
        raise UsageError("Give --faces or --photos, folders with a folder for each group.")
    bundle = Bundle.load(args.bundle)
    vectors, groups = _vectors(Embedder(bundle), args.faces, args.photos, args.cache)
    learning = np.random.default_rng(0).permutation(len(vectors)) % 2 == 0
    names, counts = np.unique(groups, return_counts=True)
    heard = [
        name
        for name in names
        if min((groups[learning] == name).sum(), (groups[~learning] == name).sum()) >= FEWEST
    ]
    for name, count in zip(names, counts, strict=True):
        if name not in heard:
            print(f"{name}: {count} faces are too few, left out")
    if len(heard) < args.directions:
        raise UsageError(
            f"--directions {args.directions} needs as many groups of {2 * FEWEST} faces or more; "
            f"there are {len(heard)}."
        )
    known = np.isin(groups, heard)
    vectors, groups, learning = vectors[known], groups[known], learning[known]
    matrix = projection(group_directions(vectors[learning], groups[learning], args.directions))
    levelled = project(bundle, matrix, args.out)
    judged = vectors[~learning] @ matrix
    judged /= np.linalg.norm(judged, axis=1, keepdims=True)
    _print_rates(vectors[~learning], judged, groups[~learning])
    print(f"wrote {args.out}, model {levelled.model_id[:12]}; calibrate it before use")
    return 0


def _vectors(
    embedder: Embedder, faces: Sequence[Path], photos: Sequence[Path], cache: Path
) -> tuple[np.ndarray, np.ndarray]:
    """Unit vectors and the group of each; groups of one name in two folders are one."""
    vectors, groups = [], []
    for root in [*faces, *photos]:
        crops, names = read_root(root, False, cache, aligned=root in faces)
        vectors.append(teacher_targets(embedder, crops, cache=cache))
        groups += [name.removeprefix(f"{root.name}/") for name in names]
    return np.concatenate(vectors), np.array(groups)


def _print_rates(before: np.ndarray, after: np.ndarray, groups: np.ndarray) -> None:
    thresholds = [middle_threshold(part, groups) for part in (before, after)]
    names = np.unique(groups)
    width = max(len("group"), *map(len, names))
    print(
        f"Strangers of one group taken for one person, with 95% intervals, at {thresholds[0]:.3f} "
        f"before and {thresholds[1]:.3f} after, where the middle group has {TARGET:g}:\n\n"
        f"{'group':{width}}  faces  {'before':26}  after"
    )
    for name in names:
        rows = groups == name
        rates = [
            false_match_rate(part[rows], threshold)
            for part, threshold in zip((before, after), thresholds, strict=True)
        ]
        old, new = (f"{rate.value:.1e} [{rate.low:.1e}, {rate.high:.1e}]" for rate in rates)
        print(f"{name:{width}}  {rows.sum():5,}  {old:26}  {new}")
