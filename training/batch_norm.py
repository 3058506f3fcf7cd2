"""Batch norm that keeps the statistics it has."""

from __future__ import annotations

from torch import nn


def keep_statistics(net: nn.Module) -> None:
    """Put every batch norm into evaluation mode; its scale and shift still learn."""
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.eval()
