"""Network input by row: cached features, or pictures augmented on the fly."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.embedding.preprocess import Preprocessing
from training.inputs.disturbance import Disturbance


class Features:
    """Cached trunk features, float32 ``(N, F)``, without augmentation."""

    slow = False

    def __init__(self, values: np.ndarray) -> None:
        self.values = torch.from_numpy(np.ascontiguousarray(values, np.float32))

    def batch(self, rows: np.ndarray, generator: torch.Generator | None) -> Tensor:
        return self.values[torch.from_numpy(rows)]


class Pictures:
    """Decoded pictures, augmented for training.

    Args:
        images: uint8 ``(N, H, W, 3)``, usually a memory map.
        rows: Rows of ``images`` in this source; row 0 of the source is ``images[rows[0]]``.
        faces: True for aligned faces (:class:`Disturbance`); False for other pictures
            (:func:`free_crops`).
    """

    slow = True

    def __init__(
        self, images: np.ndarray, rows: np.ndarray, preprocessing: Preprocessing, *, faces: bool
    ) -> None:
        self.images, self.rows, self.preprocessing = images, rows, preprocessing
        self.disturb = Disturbance() if faces else free_crops

    def batch(self, rows: np.ndarray, generator: torch.Generator | None) -> Tensor:
        pixels = self.images[self.rows[rows]]
        if generator is None:
            images = torch.from_numpy(self.preprocessing(pixels))
        else:
            size = self.preprocessing.input_size
            images = self.disturb(torch.from_numpy(pixels), size, generator)
            images = self.preprocessing.normalise(images)
        return images.contiguous(memory_format=torch.channels_last)


def free_crops(pixels: Tensor, size: int, generator: torch.Generator) -> Tensor:
    """Random crops of 25% to 100% of the area, mirrored half of the time.

    Maps uint8 ``(B, H, W, 3)`` to float32 ``(B, 3, size, size)`` in 0..255.
    """
    count = len(pixels)
    side = (0.25 + 0.75 * torch.rand(count, generator=generator)).sqrt()
    mirror = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
    theta = torch.zeros(count, 2, 3)
    theta[:, 0, 0], theta[:, 1, 1] = side * mirror, side
    shift = (torch.rand(count, 2, generator=generator) * 2 - 1) * (1 - side)[:, None]
    theta[:, :, 2] = shift
    images = pixels.permute(0, 3, 1, 2).float()
    grid = F.affine_grid(theta, [count, 3, size, size], align_corners=False)
    return F.grid_sample(images, grid, padding_mode="border", align_corners=False)


class Head(nn.Module):
    """The trainable head of a frozen trunk: ``width`` features to unit vectors of ``dim``."""

    def __init__(self, width: int, dim: int) -> None:
        super().__init__()
        self.head = nn.Sequential(nn.Linear(width, dim))

    def forward(self, features: Tensor) -> Tensor:
        return F.normalize(self.head(features).float(), dim=1)
