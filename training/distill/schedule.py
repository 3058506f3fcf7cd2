"""Warm up, stay, and fall once it is said: a schedule whose end need not be known at the start."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Schedule:
    """The learning rate and the input size by step.

    Attributes:
        peak: Highest rate.
        warmup: Steps of linear rise.
        decay_from: The step at which the rate begins to fall, or None while it stays.
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
        """The step after the last one, once the rate falls."""
        return None if self.decay_from is None else self.decay_from + self.decay_steps
