"""The description of a network, without torch."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """The parts of a network; stored in its bundle.

    Attributes:
        trunk: ``resnet50``, ``resnet18``, ``mobilenet_v2``, or ``inception_resnet_v1`` for
            facenet-pytorch's network.
        pooling: ``avg``, the mean over all positions.
        dim: Length of the embedding.
        head_norm: Whether a batch norm follows the linear head, before normalisation.
    """

    trunk: str = "resnet50"
    pooling: str = "avg"
    dim: int = 512
    head_norm: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
