"""Which stages of a trunk a run leaves as they are: it need not walk back through them."""

from __future__ import annotations

from torch import nn

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
