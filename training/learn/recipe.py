"""Training settings and presets."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from training.errors import UsageError


@dataclass(frozen=True)
class Recipe:
    """Settings of a run, stored in every checkpoint. The defaults are the paper's.

    Attributes:
        epochs: Passes over the training set.
        batch: Pictures per step, over all processes.
        lr: Learning rate of AdamW for the trunk, with cosine annealing to zero.
        weight_decay: Decoupled weight decay of all parameters.
        clip: Largest gradient norm.
        head_lr: Factor on ``lr`` for the head and for untrained stages of the trunk.
        proxy_lr: Factor on ``lr`` for the proxies, if the loss has any.
        warmup: Epochs in which only untrained parts learn: head, proxies, stages without weights.
        freeze_bn: Freeze the batch-norm statistics of the trunk's pretrained blocks. Otherwise
            processes on GPUs synchronise them; without GPUs each uses its own part of the batch,
            and the result depends on the number of processes.
        ema: Decay of the averaged weights; 0 for none.
        precision: ``fp32`` or ``bf16`` (autocast; the loss stays in float32).
        compile: Use ``torch.compile``.
        loss_weight: Factor on the metric loss; 0 trains with the further term alone.
        seed: Seed of fresh weights, order and augmentation.
    """

    epochs: int = 500
    batch: int = 32
    lr: float = 1e-5
    weight_decay: float = 1e-4
    clip: float = 1.0
    head_lr: float = 1.0
    proxy_lr: float = 1.0
    warmup: int = 0
    freeze_bn: bool = False
    ema: float = 0.0
    precision: str = "fp32"
    compile: bool = False
    loss_weight: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if self.epochs < 1 or self.batch < 1:
            raise UsageError(f"epochs {self.epochs} and batch {self.batch} must be positive")
        if self.precision not in ("fp32", "bf16"):
            raise UsageError(f"precision is {self.precision!r}; it must be fp32 or bf16")
        for name in ("lr", "weight_decay", "head_lr", "proxy_lr", "warmup", "loss_weight", "seed"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise UsageError(f"{name.replace('_', ' ')} is {value}; it must be 0 or more")
        if not self.clip > 0:
            raise UsageError(f"clip is {self.clip}; it must be above 0")
        if not 0 <= self.ema < 1:
            raise UsageError(f"ema is {self.ema}; it must be 0 or more and below 1")

    def in_words(self) -> str:
        """``epochs 500, batch 32, ...``: all settings that are not zero or off."""
        settings = asdict(self).items()
        return ", ".join(f"{name} {value}" for name, value in settings if value)

    def rate(self, step: int, total: int, per_epoch: int, part: str) -> float:
        """Learning rate of ``trunk``, ``head`` or ``proxies`` at a step."""
        factor = {"trunk": 1.0, "head": self.head_lr, "proxies": self.proxy_lr}[part]
        if part == "trunk" and step < self.warmup * per_epoch:
            return 0.0
        return self.lr * factor * 0.5 * (1 + math.cos(math.pi * step / total))


PRESETS: dict[str, Recipe] = {
    "paper": Recipe(),
    "cpu": Recipe(
        epochs=12, lr=2e-4, head_lr=5.0, proxy_lr=20.0, warmup=1, freeze_bn=True, ema=0.998,
        precision="bf16",
    ),
    "frozen": Recipe(epochs=60, lr=1e-3, proxy_lr=10.0),
}  # fmt: skip
"""``cpu`` fine-tunes a whole network in about an hour; ``frozen`` trains on cached features."""


def recipe(preset: str, **changes: Any) -> Recipe:
    """A preset with some settings changed; None keeps the preset's value."""
    if preset not in PRESETS:
        raise UsageError(f"preset is {preset!r}; it must be one of {', '.join(PRESETS)}")
    return replace(PRESETS[preset], **{k: v for k, v in changes.items() if v is not None})


def differing(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Names of the settings in which a stored run differs from the wanted one.

    Args:
        stored: Settings of a run, with its recipe as a dictionary under ``recipe``. Recipe fields
            it lacks count as their defaults; other settings it lacks are not compared.
        wanted: Settings of the other run, in the same form.
    """
    old, new = _flat(stored), _flat(wanted)
    return [name for name, value in new.items() if old.get(name, value) != value]


def _flat(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings and recipe fields in one dictionary."""
    others = {name: value for name, value in settings.items() if name != "recipe"}
    return others | asdict(Recipe()) | settings["recipe"]
