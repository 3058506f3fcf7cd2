"""Project out of a model's vectors the directions that strangers of a group share."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from model.bundle import Bundle, save_graph, save_network
from model.embedding import onnx_graph
from model.embedding.network import EmbeddingNet

FEWEST, MOST = 30, 2000
"""Fewest faces per half for a group to be used; most that are counted."""

TARGET = 1e-2
"""False-match rate of the median group at the threshold."""


def group_directions(vectors: np.ndarray, groups: np.ndarray, count: int) -> np.ndarray:
    """The leading orthonormal directions ``(count, D)`` of the groups' mean vectors.

    Args:
        vectors: Unit vectors ``(N, D)``.
        groups: ``(N,)``, equal for faces of one group; every group has the same weight.
        count: Number of directions, at most the number of groups.
    """
    means = np.stack([vectors[groups == group].mean(0) for group in np.unique(groups)])
    return np.linalg.svd(means, full_matrices=False)[2][:count]


def projection(directions: np.ndarray) -> np.ndarray:
    """The matrix ``(D, D)`` that projects orthonormal directions out of a vector."""
    return np.eye(directions.shape[1]) - directions.T @ directions


def middle_threshold(vectors: np.ndarray, groups: np.ndarray) -> float:
    """The threshold at which the median group has a false-match rate of ``TARGET``.

    With an even number of groups, the upper median is used: the group with more false matches.

    Args:
        vectors: Unit vectors ``(N, D)``, each of a different person.
        groups: ``(N,)``, equal for faces of one group.
    """
    own = []
    for group in np.unique(groups):
        members = vectors[groups == group][:MOST]
        scores = (members @ members.T)[np.triu_indices(len(members), 1)]
        own.append(float(np.quantile(scores, 1 - TARGET)))
    return sorted(own)[len(own) // 2]


def project(bundle: Bundle, matrix: np.ndarray, out: Path, about: Mapping[str, Any]) -> Bundle:
    """Write a bundle whose vectors are ``matrix`` times those of another, normalised again.

    Args:
        bundle: An imported graph, or a network of ours.
        matrix: ``(D, D)``.
        about: Settings of the projection, for the provenance.
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
    """A copy of the network whose head output is multiplied by ``matrix``.

    The head's batch norm is folded into the linear layer and keeps only an offset. Further training
    with live batch-norm statistics would therefore start from different outputs.
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
