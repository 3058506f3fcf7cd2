"""Freeze batch-norm statistics."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm


def keep_statistics(net: nn.Module, fresh: Sequence[str] = ()) -> None:
    """Put every batch norm into evaluation mode; its scale and shift are still trained.

    Args:
        net: The network.
        fresh: Children of ``net`` to skip, as they start untrained and have no statistics yet.
    """
    for name, child in net.named_children():
        if name in fresh:
            continue
        for module in child.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
