"""Weight averaging of several networks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import nn

from model.bundle import Bundle
from training.errors import UsageError


def mean_network(bundles: Sequence[Bundle]) -> nn.Module:
    """A network whose parameters and batch-norm statistics are the means over the bundles.

    Raises:
        UsageError: Architecture or preprocessing differ (``flip`` may), or a bundle is an
            imported graph.
    """
    first = bundles[0]
    if imported := next((each for each in bundles if each.architecture is None), None):
        raise UsageError(f"{imported.path} is an imported graph, which has no weights to average.")
    for other in bundles[1:]:
        if other.architecture != first.architecture:
            raise UsageError(f"{other.path} has another architecture than {first.path}.")
        if replace(other.preprocessing, flip=first.preprocessing.flip) != first.preprocessing:
            raise UsageError(f"{other.path} has another input than {first.path}.")
    net = first.network()
    states = [bundle.network().state_dict() for bundle in bundles]
    with torch.no_grad():
        for name, tensor in net.state_dict().items():
            if tensor.is_floating_point():
                tensor.copy_(torch.stack([state[name] for state in states]).mean(0))
    return net
