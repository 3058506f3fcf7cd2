"""Data augmentation of aligned crops in batches; cheap compared with the network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torchvision.io import decode_jpeg, encode_jpeg

from model.embedding.tensors import resize

Change = Callable[[Tensor, torch.Generator], Tensor]
"""Float images ``(n, 3, h, w)`` in 0..255, changed."""


@dataclass(frozen=True)
class Disturbance:
    """Probability and size of each augmentation.

    Attributes:
        shift, zoom, degrees: Standard deviations of the alignment error: share of the side, share
            of the size, degrees. Slightly larger than the detector's.
        wild: Probability that these three are four times as large.
        light: Largest relative change of contrast. Brightness changes by up to half that share of
            the full range.
        dark: Probability of low light: a fifth to a half of the brightness, with noise.
        grey: Probability of removing colour.
        soft: Probability of losing fine detail, down to 16 pixels between the eyes of a 112 px
            crop, sometimes 8.
        blur: Probability of motion blur.
        jpeg: Probability of JPEG compression, quality 15 to 60.
        edge: Probability of black borders, as if the crop extended beyond the photo.
        occlude: Probability of a patch of one colour, up to half the side.
    """

    shift: float = 0.012
    zoom: float = 0.025
    degrees: float = 2.5
    wild: float = 0.1
    light: float = 0.25
    dark: float = 0.06
    grey: float = 0.05
    soft: float = 0.2
    blur: float = 0.06
    jpeg: float = 0.12
    edge: float = 0.12
    occlude: float = 0.1

    def __call__(self, crops: Tensor, size: int, generator: torch.Generator) -> Tensor:
        """uint8 crops ``(B, 112, 112, 3)`` to float images ``(B, 3, size, size)`` in 0..255."""
        count = len(crops)

        def some(share: float, change: Change) -> None:
            rows = torch.nonzero(torch.rand(count, generator=generator) < share).flatten()
            if len(rows):
                images[rows] = change(images[rows], generator)

        images = crops.permute(0, 3, 1, 2).float()
        some(self.edge, _cut_at_edge)
        images = resize(self._move(images, generator), size)
        some(self.soft, _soften)
        some(self.blur, _smear)
        images = self._relight(images, generator)
        some(self.dark, _darken)
        some(self.grey, _grey)
        images = images.clamp(0, 255)
        some(self.jpeg, _compress)
        some(self.occlude, _cover)
        return images

    def _move(self, images: Tensor, generator: torch.Generator) -> Tensor:
        count = len(images)
        size = torch.where(torch.rand(count, generator=generator) < self.wild, 4.0, 1.0)
        angle = torch.randn(count, generator=generator) * size * math.radians(self.degrees)
        scale = (torch.randn(count, generator=generator) * size * self.zoom).exp()
        mirror = torch.where(torch.rand(count, generator=generator) < 0.5, -1.0, 1.0)
        theta = torch.zeros(count, 2, 3)
        theta[:, 0, 0] = mirror * scale * angle.cos()
        theta[:, 0, 1] = -scale * angle.sin()
        theta[:, 1, 0] = mirror * scale * angle.sin()
        theta[:, 1, 1] = scale * angle.cos()
        theta[:, :, 2] = 2 * self.shift * size[:, None] * torch.randn(count, 2, generator=generator)
        grid = F.affine_grid(theta, list(images.shape), align_corners=False)
        return F.grid_sample(images, grid, padding_mode="zeros", align_corners=False)

    def _relight(self, images: Tensor, generator: torch.Generator) -> Tensor:
        gain, offset = torch.rand(2, len(images), 1, 1, 1, generator=generator) * 2 - 1
        middle = images.mean((1, 2, 3), keepdim=True)
        return (images - middle) * (1 + self.light * gain) + middle + 255 * self.light / 2 * offset


def _cut_at_edge(images: Tensor, generator: torch.Generator) -> Tensor:
    """Black out a random border at some sides, as where the photo ends."""
    count, _, side, _ = images.shape
    share = torch.rand(count, 4, generator=generator) * 0.28
    share = share * (torch.rand(count, 4, generator=generator) < 0.5)
    line = (torch.arange(side) + 0.5) / side
    rows = (line >= share[:, :1]) & (line <= 1 - share[:, 1:2])
    columns = (line >= share[:, 2:3]) & (line <= 1 - share[:, 3:])
    return images * (rows[:, None, :, None] & columns[:, None, None, :])


def _soften(images: Tensor, generator: torch.Generator) -> Tensor:
    size = images.shape[-1]
    share = 0.2 + 0.5 * torch.rand(1, generator=generator).item()
    small = resize(images, max(8, round(size * share)))
    return F.interpolate(small, (size, size), mode="bilinear")


def _smear(images: Tensor, generator: torch.Generator) -> Tensor:
    """Motion blur, in one direction for the whole batch."""
    angle, length = torch.rand(2, generator=generator).tolist()
    reach = images.shape[-1] * (0.02 + 0.05 * length)
    total = torch.zeros_like(images)
    for step in (-1.0, -0.5, 0.0, 0.5, 1.0):
        dx = round(reach * step * math.cos(math.pi * angle))
        dy = round(reach * step * math.sin(math.pi * angle))
        total += images.roll((dy, dx), (2, 3))
    return total / 5


def _darken(images: Tensor, generator: torch.Generator) -> Tensor:
    light = 0.2 + 0.3 * torch.rand(len(images), 1, 1, 1, generator=generator)
    return images * light + 4 * torch.randn(images.shape, generator=generator)


def _grey(images: Tensor, _: torch.Generator) -> Tensor:
    return images.mean(1, keepdim=True).expand_as(images)


def _compress(images: Tensor, generator: torch.Generator) -> Tensor:
    qualities = (15 + 45 * torch.rand(len(images), generator=generator)).int().tolist()
    return torch.stack([
        decode_jpeg(encode_jpeg(image.round().byte(), quality)).float()
        for image, quality in zip(images, qualities, strict=True)
    ])  # fmt: skip


def _cover(images: Tensor, generator: torch.Generator) -> Tensor:
    """Cover a rectangle of up to half the side with one colour."""
    count, size = len(images), images.shape[-1]
    extent = (torch.rand(count, 2, generator=generator) * 0.4 + 0.1) * size
    corner = torch.rand(count, 2, generator=generator) * (size - extent)
    line = torch.arange(size).view(1, 1, size)
    inside = (line >= corner.unsqueeze(2)) & (line < (corner + extent).unsqueeze(2))
    patch = (inside[:, 0].unsqueeze(2) & inside[:, 1].unsqueeze(1)).unsqueeze(1)
    return torch.where(patch, torch.rand(count, 3, 1, 1, generator=generator) * 255, images)
