"""Exponential moving average of a network's weights and batch-norm statistics."""

from __future__ import annotations

import copy

import torch
from torch import nn


class EMA:
    """An averaged copy of a network, the one to evaluate and ship.

    Args:
        net: The network being trained.
        decay: Share of the old average kept per step. Early steps keep less, so that the initial
            weights are forgotten quickly.
    """

    def __init__(self, net: nn.Module, decay: float = 0.999) -> None:
        self.net = copy.deepcopy(net).eval().requires_grad_(False)
        self.decay = decay
        self.steps = 0

    @torch.no_grad()
    def update(self, net: nn.Module) -> None:
        self.steps += 1
        keep = min(self.decay, (1 + self.steps) / (10 + self.steps))
        ours, theirs = self.net.state_dict(), net.state_dict()
        floats = [name for name, value in ours.items() if value.is_floating_point()]
        torch._foreach_lerp_(
            [ours[name] for name in floats], [theirs[name] for name in floats], 1 - keep
        )
        for name in ours.keys() - floats:
            ours[name].copy_(theirs[name])

    def state_dict(self) -> dict:
        return {"net": self.net.state_dict(), "steps": self.steps}

    def load_state_dict(self, state: dict) -> None:
        self.net.load_state_dict(state["net"])
        self.steps = state["steps"]
