"""The interface between losses and the training loop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

BLOCK = 1 << 16
"""Number of proxies initialised at a time."""


class MetricLoss(nn.Module, ABC):
    """A scalar loss of embeddings and labels, always computed in float32, even under autocast.

    Attributes:
        proxies: Learnable class vectors ``(C, D)``, or None for a loss without proxies.
        transposed: True if the proxies are stored as ``(D, C)``.
        samples_per_class: Pictures per class that a batch needs to have genuine pairs; None if
            the loss accepts any batch.
        progress: Completed share of the run, 0 to 1; the loop sets it before each step.
        group: Process group the proxies are sharded over, or None.
    """

    proxies: nn.Parameter | None
    transposed: bool = False
    samples_per_class: int | None = None
    progress: float = 0.0
    group: Any = None

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("proxies", None)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Loss of a batch.

        Args:
            embeddings: ``(B, D)``; only their direction matters.
            labels: int64 ``(B,)`` in ``0..C-1``.

        Returns:
            Scalar float32.
        """
        with torch.autocast(embeddings.device.type, enabled=False):
            return self.compute(embeddings.float(), labels)

    @abstractmethod
    def compute(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """The loss of float32 embeddings."""

    @torch.no_grad()
    def start_from(self, means: Tensor) -> None:
        """Point the proxies along the class means ``(C, D)``; keep the proxies' mean length.

        The length is kept because it acts as a learning rate: it sets how far a step turns a proxy.
        """
        if self.proxies is None:
            raise ValueError(f"{type(self).__name__} has no proxies to start from class means")
        rows = self.proxies.T if self.transposed else self.proxies
        rows.copy_(F.normalize(means.to(rows), dim=1) * rows.norm(dim=1).mean())


class ProxyLoss(MetricLoss):
    """A loss whose proxies may be sharded over processes.

    Args:
        classes: Number of classes, C.
        dim: Length of the embeddings, D.
        shard: ``(rank, world, group)`` to hold only this process's shard of the proxies. Every
            process must then see the whole batch.
    """

    def __init__(self, classes: int, dim: int, shard: tuple[int, int, Any] | None = None) -> None:
        super().__init__()
        self.classes = classes
        rows = range(classes)
        if shard is not None:
            rank, world, self.group = shard
            rows = range(rank * classes // world, (rank + 1) * classes // world)
        self.offset = rows.start
        self.proxies = kaiming_proxies(classes, dim, rows)

    def check_labels(self, labels: Tensor) -> None:
        """Raise ValueError unless every label has a proxy.

        A chunk or shard looks only for labels of its own proxies, so none would notice a bad one.
        """
        if ((labels < 0) | (labels >= self.classes)).any():
            raise ValueError(
                f"labels go from {labels.min()} to {labels.max()}; "
                f"they must be in 0..{self.classes - 1}"
            )

    @torch.no_grad()
    def start_from(self, means: Tensor) -> None:
        super().start_from(means[self.offset : self.offset + len(self.proxies)])


def kaiming_proxies(classes: int, dim: int, rows: range | None = None) -> nn.Parameter:
    """Kaiming-uniform proxies ``(classes, dim)``, the paper's random initialisation.

    Args:
        classes: Number of proxies to draw.
        dim: Length of the embeddings.
        rows: Rows to keep, identical to those a single process would draw; all if None.
    """
    kept = range(classes) if rows is None else rows
    proxies = torch.empty(len(kept), dim)
    for start in range(0, classes, BLOCK):
        part = torch.empty(min(BLOCK, classes - start), dim)
        nn.init.kaiming_uniform_(part)
        first, last = max(kept.start, start), min(kept.stop, start + len(part))
        if first < last:
            proxies[first - kept.start : last - kept.start] = part[first - start : last - start]
    return nn.Parameter(proxies)


def inverse_margin(margin: Tensor, floor: float) -> Tensor:
    """``1 / margin``; below ``floor`` its tangent, so that it decreases everywhere."""
    safe = margin.clamp(min=floor)
    return 1 / safe + (safe - margin) / floor**2


def minus_log(margin: Tensor, floor: float) -> Tensor:
    """``-log(margin)``; below ``floor`` its tangent, so that it decreases everywhere."""
    safe = margin.clamp(min=floor)
    return -safe.log() + (safe - margin) / floor
