"""Preprocessing of torch tensors, for training."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor


def resize(images: Tensor, size: int) -> Tensor:
    """Resize float images ``(N, C, H, W)`` to ``size`` x ``size``, bilinear and antialiased."""
    if images.shape[-2:] == (size, size):
        return images
    return F.interpolate(images, (size, size), mode="bilinear", antialias=True)
