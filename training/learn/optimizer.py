"""The parameters of a run in groups, each with its learning rate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import nn

from training.learn.recipe import Recipe
from training.losses import MetricLoss


def parameter_groups(
    net: nn.Module, fresh: Sequence[str], loss: MetricLoss, recipe: Recipe
) -> list[dict[str, Any]]:
    """Trunk, head (with all else that is fresh) and proxies, each with its learning rate."""
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
