"""Warm-up, constant and decay: a schedule whose end need not be known at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The learning rate by step.

    Attributes:
        peak: Highest rate.
        warmup: Steps of linear warm-up.
        decay_from: First step of the decay, or None if it has not been set yet.
        decay_steps: Steps from there to zero.
    """

    peak: float = 6e-4
    warmup: int = 300
    decay_from: int | None = None
    decay_steps: int = 1

    def rate(self, step: int) -> float:
        rising = min(1.0, (step + 1) / self.warmup)
        if self.decay_from is None or step < self.decay_from:
            return self.peak * rising
        left = 1 - (step - self.decay_from) / self.decay_steps
        return self.peak * rising * max(0.0, 1 - math.sqrt(max(0.0, 1 - left)))

    @property
    def end(self) -> int | None:
        """The step at which the decay reaches zero, or None without a decay."""
        return None if self.decay_from is None else self.decay_from + self.decay_steps
