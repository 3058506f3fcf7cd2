"""Aligned crops to network input: the one definition that every engine and trainer shares."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.types import CROP_SIZE

IMAGENET_MEAN = (0.485 * 255, 0.456 * 255, 0.406 * 255)
IMAGENET_STD = (0.229 * 255, 0.224 * 255, 0.225 * 255)


@dataclass(frozen=True)
class Preprocessing:
    """How pixels 0..255 become network input.

    Attributes:
        input_size: Side of the square input in pixels.
        mean: Subtracted per channel, in pixel units.
        std: Divided by per channel, in pixel units.
        channels: ``RGB`` or ``BGR``, the order the network was trained with.
        flip: Average the embeddings of the crop and its mirror image.
    """

    input_size: int = CROP_SIZE
    mean: tuple[float, float, float] = IMAGENET_MEAN
    std: tuple[float, float, float] = IMAGENET_STD
    channels: str = "RGB"
    flip: bool = False

    def __post_init__(self) -> None:
        if self.channels not in ("RGB", "BGR"):
            raise ValueError(f"channels is {self.channels!r}; it must be RGB or BGR")
        if self.input_size < 32:
            raise ValueError(f"input_size is {self.input_size}; it must be at least 32 pixels")
        if min(self.std) <= 0:
            raise ValueError(f"std is {self.std}; every value must be positive")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Preprocessing:
        return cls(**{**data, "mean": tuple(data["mean"]), "std": tuple(data["std"])})

    def __call__(self, crops: np.ndarray | Sequence[np.ndarray]) -> Tensor:
        """uint8 crops ``(N, H, W, 3)`` to float32 input ``(N, 3, size, size)``."""
        pixels = torch.from_numpy(np.array(crops))
        if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != torch.uint8:
            raise ValueError(
                f"crops are {tuple(pixels.shape)} {pixels.dtype}; expected uint8 (N, H, W, 3)"
            )
        return self.normalise(resize(pixels.permute(0, 3, 1, 2).float(), self.input_size))

    def normalise(self, images: Tensor) -> Tensor:
        """Float images ``(N, 3, H, W)`` in 0..255 RGB to network units and channel order."""
        if self.channels == "BGR":
            images = images.flip(1)
        mean = images.new_tensor(self.mean).view(1, 3, 1, 1)
        std = images.new_tensor(self.std).view(1, 3, 1, 1)
        return (images - mean) / std


def resize(images: Tensor, size: int) -> Tensor:
    """Float images ``(N, C, H, W)`` to ``size`` x ``size``, antialiased."""
    if images.shape[-2:] == (size, size):
        return images
    return F.interpolate(images, (size, size), mode="bilinear", antialias=True)
