"""What a run leaves as it is: stages of a trunk, and the statistics of batch norm."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from training.errors import UsageError


def frozen_stages(trunk: nn.Module, last: str) -> list[nn.Module]:
    """The stages of a trunk from its first to ``last``; none for an empty name.

    Raises:
        UsageError: The trunk has no such stage, or nothing of it would be left to train.
    """
    if not last:
        return []
    stages = dict(trunk.named_children())
    allowed = list(stages)[:-1]
    if last not in allowed:
        known = f"give one of {', '.join(allowed)}" if allowed else "this trunk has none"
        raise UsageError(f"--freeze {last} names no stage before the trunk's last; {known}.")
    return [stages[name] for name in allowed[: allowed.index(last) + 1]]


def keep_statistics(net: nn.Module, fresh: Sequence[str] = ()) -> None:
    """Put every batch norm into evaluation mode; its scale and shift still learn.

    Args:
        net: What to walk through.
        fresh: Its children that have no statistics worth keeping yet.
    """
    for name, child in net.named_children():
        if name in fresh:
            continue
        for module in child.modules():
            if isinstance(module, _BatchNorm):
                module.eval()
