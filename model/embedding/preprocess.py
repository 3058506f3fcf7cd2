"""Preprocessing of aligned crops, shared by every engine and trainer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from model.types import CROP_SIZE

if TYPE_CHECKING:
    from torch import Tensor

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
        rows: dict[str, Any] = {n: tuple(data[n]) for n in ("mean", "std") if n in data}
        return cls(**(data | rows))

    def __call__(self, crops: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Convert uint8 crops ``(N, H, W, 3)`` to float32 input ``(N, 3, size, size)``."""
        pixels = np.asarray(crops)
        if pixels.ndim != 4 or pixels.shape[3] != 3 or pixels.dtype != np.uint8:
            raise ValueError(
                f"crops are {pixels.shape} {pixels.dtype}; expected uint8 (N, H, W, 3)"
            )
        planes = pixels.transpose(0, 3, 1, 2).astype(np.float32, order="C")
        images = resized(planes, self.input_size)
        if self.channels == "BGR":
            images = images[:, ::-1]
        mean, std = (
            np.array(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std)
        )
        return (images - mean) / std

    def normalise(self, images: Tensor) -> Tensor:
        """Convert float RGB images ``(N, 3, H, W)`` in 0..255 to network units and channels."""
        if self.channels == "BGR":
            images = images.flip(1)
        mean = images.new_tensor(self.mean).view(1, 3, 1, 1)
        std = images.new_tensor(self.std).view(1, 3, 1, 1)
        return (images - mean) / std


def resized(images: np.ndarray, size: int) -> np.ndarray:
    """Resize float32 images ``(N, C, H, W)`` to ``size`` x ``size``, bilinear and antialiased.

    Equals :func:`model.embedding.tensors.resize`, without torch.
    """
    height, width = images.shape[-2:]
    if (height, width) == (size, size):
        return images
    return _weights(height, size) @ images @ _weights(width, size).T


@lru_cache(maxsize=16)
def _weights(source: int, target: int) -> np.ndarray:
    """Resampling weights, float32 ``(target, source)``, of each source pixel in each target pixel.

    A triangle filter around the target pixel's centre, two pixels of the coarser grid wide.
    """
    # Single precision, like torch: networks were trained on images with its rounding.
    step = np.float32(source) / np.float32(target)
    centres = step * (np.arange(target, dtype=np.float32) + np.float32(0.5))
    offset = np.arange(source, dtype=np.float32) - centres[:, None] + np.float32(0.5)
    weights = (1 - np.abs(offset / max(step, np.float32(1)))).clip(min=0)
    return weights / weights.sum(axis=1, keepdims=True)
