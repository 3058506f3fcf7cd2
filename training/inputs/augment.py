"""Batched augmentation of aligned face crops, cheap enough to run beside the network."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from model.embedding.tensors import resize


@dataclass(frozen=True)
class Augment:
    """Chances and ranges of each change; ranges are uniform and symmetric.

    Attributes:
        shift: Largest shift, as a share of the crop's side.
        zoom: Largest change of scale, as a share.
        degrees: Largest rotation.
        light: Largest change of brightness and of contrast, as a share.
        grey: Chance of losing all colour.
        soft: Chance of losing fine detail, by shrinking to between a quarter and three quarters
            of the side and growing back.
        occlude: Chance of a flat grey patch of up to half the side.
    """

    shift: float = 0.08
    zoom: float = 0.08
    degrees: float = 8.0
    light: float = 0.25
    grey: float = 0.05
    soft: float = 0.15
    occlude: float = 0.1

    def __call__(self, crops: Tensor, size: int, generator: torch.Generator) -> Tensor:
        """uint8 crops ``(B, 112, 112, 3)`` to float images ``(B, 3, size, size)`` in 0..255."""

        def uniform(*shape: int) -> Tensor:
            return torch.rand(*shape, generator=generator) * 2 - 1

        def chance(share: float) -> Tensor:
            return torch.rand(count, 1, 1, 1, generator=generator) < share

        count = len(crops)
        images = crops.permute(0, 3, 1, 2).float()
        images = resize(self._move(images, uniform), size)
        images = self._relight(images, uniform)
        images = torch.where(chance(self.grey), images.mean(1, keepdim=True), images)
        small = int(size * (0.5 + 0.25 * uniform(1).item()))
        soft = F.interpolate(resize(images, small), (size, size), mode="bilinear")
        images = torch.where(chance(self.soft), soft, images)
        patch = _patches(count, size, generator) & chance(self.occlude)
        return torch.where(patch, 127.0, images).clamp(0, 255)

    def _move(self, images: Tensor, uniform) -> Tensor:
        count = len(images)
        angle = uniform(count) * math.radians(self.degrees)
        scale = 1 + self.zoom * uniform(count)
        mirror = torch.where(uniform(count) < 0, -1.0, 1.0)
        theta = torch.zeros(count, 2, 3)
        theta[:, 0, 0] = mirror * scale * angle.cos()
        theta[:, 0, 1] = -scale * angle.sin()
        theta[:, 1, 0] = mirror * scale * angle.sin()
        theta[:, 1, 1] = scale * angle.cos()
        theta[:, :, 2] = 2 * self.shift * uniform(count, 2)
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="border", align_corners=False)

    def _relight(self, images: Tensor, uniform) -> Tensor:
        count = len(images)
        gain = 1 + self.light * uniform(count, 1, 1, 1)
        offset = 255 * self.light / 2 * uniform(count, 1, 1, 1)
        middle = images.mean((1, 2, 3), keepdim=True)
        return (images - middle) * gain + middle + offset


def _patches(count: int, size: int, generator: torch.Generator) -> Tensor:
    """One rectangle of up to half the side per image, as a mask ``(count, 1, size, size)``."""
    extent = (torch.rand(count, 2, generator=generator) * 0.4 + 0.1) * size
    corner = torch.rand(count, 2, generator=generator) * (size - extent)
    line = torch.arange(size).view(1, 1, size)
    inside = (line >= corner.unsqueeze(2)) & (line < (corner + extent).unsqueeze(2))
    return (inside[:, 0].unsqueeze(2) & inside[:, 1].unsqueeze(1)).unsqueeze(1)
