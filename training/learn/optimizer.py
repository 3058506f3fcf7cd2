"""Parameter groups with their learning rates, and gradient clipping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

from training.learn.recipe import Recipe
from training.losses import MetricLoss


def parameter_groups(
    net: nn.Module, fresh: Sequence[str], loss: MetricLoss, recipe: Recipe
) -> list[dict[str, Any]]:
    """Parameter groups: trunk, head (with the trunk's fresh blocks) and proxies."""
    blocks = [net.head] if hasattr(net, "head") else []
    blocks += [net.trunk.get_submodule(name) for name in fresh]
    head = {id(p) for block in blocks for p in block.parameters()}
    parts = {
        "trunk": [p for p in net.parameters() if p.requires_grad and id(p) not in head],
        "head": [p for p in net.parameters() if p.requires_grad and id(p) in head],
        "proxies": list(loss.parameters()),
    }
    decay = recipe.weight_decay
    return [{"params": ps, "part": part, "weight_decay": decay} for part, ps in parts.items() if ps]


def clip_gradients(optimizer: torch.optim.Optimizer, limit: float, group: Any = None) -> None:
    """Scale all gradients so that their norm is at most ``limit``.

    Args:
        optimizer: Optimiser with the groups of :func:`parameter_groups`.
        group: Process group the proxies are sharded over. The norm includes all shards, so that
            every process scales the network's gradients alike.
    """
    shared, own = [], []
    for part in optimizer.param_groups:
        (own if part["part"] == "proxies" else shared).extend(part["params"])
    norms = [nn.utils.get_total_norm([p.grad for p in ps if p.grad is not None])
             for ps in (shared, own)]  # fmt: skip
    squares = norms[1] ** 2
    if group is not None:
        dist.all_reduce(squares, group=group)
    nn.utils.clip_grads_with_norm_([*shared, *own], limit, (norms[0] ** 2 + squares).sqrt())
