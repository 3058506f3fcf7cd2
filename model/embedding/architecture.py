"""What a network is made of, without the network."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Architecture:
    """What a network is made of; stored in its bundle.

    Attributes:
        trunk: ``resnet50``, ``resnet18``, ``mobilenet_v2``, or ``inception_resnet_v1`` for
            facenet-pytorch's network.
        pooling: ``avg``, ``avg_max`` or ``gem``.
        dim: Length of the embedding.
        head_norm: Batch norm after the linear head, before the unit length.
    """

    trunk: str = "resnet50"
    pooling: str = "avg"
    dim: int = 512
    head_norm: bool = False

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
