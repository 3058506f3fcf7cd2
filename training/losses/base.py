"""What every loss looks like to the loop."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MetricLoss(nn.Module, ABC):
    """Embeddings and labels to one number, in float32 whatever autocast says.

    Attributes:
        proxies: Learnable class vectors ``(C, D)``, or None for a loss without.
        transposed: Whether they are kept as ``(D, C)``.
        samples_per_class: Pictures per class a batch needs for the loss to have genuine pairs;
            None when any batch will do.
    """

    proxies: nn.Parameter | None
    transposed: bool = False
    samples_per_class: int | None = None

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("proxies", None)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Loss of a batch.

        Args:
            embeddings: ``(B, D)``; only their direction counts.
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
        """Set the proxies to class means ``(C, D)``, at unit length."""
        if self.proxies is None:
            raise ValueError(f"{type(self).__name__} has no proxies to start from class means")
        self.proxies.copy_(F.normalize(means.to(self.proxies), dim=1))


def kaiming_proxies(classes: int, dim: int) -> nn.Parameter:
    """Kaiming-uniform proxies ``(classes, dim)``, the paper's random initialisation."""
    proxies = torch.empty(classes, dim)
    nn.init.kaiming_uniform_(proxies)
    return nn.Parameter(proxies)


def inverse_margin(margin: Tensor, floor: float) -> Tensor:
    """``1 / margin``, continued below ``floor`` by its tangent, so that it always falls."""
    safe = margin.clamp(min=floor)
    return 1 / safe + (safe - margin) / floor**2


def minus_log(margin: Tensor, floor: float) -> Tensor:
    """``-log(margin)``, continued below ``floor`` by its tangent, so that it always falls."""
    safe = margin.clamp(min=floor)
    return -safe.log() + (safe - margin) / floor
