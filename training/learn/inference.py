"""Inference: input sources, precision, embeddings and class means."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from model.embedding.embedder import Embedder

BLOCK = 256
"""Crops read from the memory map at a time."""


class Source(Protocol):
    """A source of network input.

    Attributes:
        slow: True if batches should be prepared on another thread.
    """

    slow: bool

    def batch(self, rows: np.ndarray, generator: torch.Generator | None) -> Tensor:
        """Input for some rows, augmented if a generator is given."""
        ...


def autocast(device: torch.device, precision: str) -> Any:
    """Autocast context: bfloat16 for ``bf16``, else none."""
    if precision == "bf16":
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


@torch.inference_mode()
def embed(
    net: nn.Module, source: Source, rows: np.ndarray, batch: int = 256, precision: str = "fp32"
) -> np.ndarray:
    """Unit vectors float32 ``(len(rows), D)`` of some rows, without augmentation."""
    device = next(net.parameters()).device
    net.eval()
    parts = []
    for start in range(0, len(rows), batch):
        inputs = source.batch(rows[start : start + batch], None).to(device)
        with autocast(device, precision):
            parts.append(net(inputs).float().cpu().numpy())
    return np.concatenate(parts)


def embed_crops(
    embedder: Embedder,
    crops: np.ndarray,
    rows: np.ndarray | None = None,
    *,
    title: str = "embedding",
) -> np.ndarray:
    """Unit vectors float32 ``(N, D)`` of crops, or of some of their rows, block by block."""
    rows = np.arange(len(crops)) if rows is None else rows
    blocks = tqdm(range(0, len(rows), BLOCK), title, unit="block")
    return np.concatenate([embedder.embed(crops[rows[at : at + BLOCK]]) for at in blocks])


@torch.no_grad()
def class_means(
    net: nn.Module, source: Source, labels: np.ndarray, precision: str = "fp32"
) -> Tensor:
    """Mean of the unit embeddings of every class, ``(C, D)``; one pass over the training set."""
    vectors = torch.from_numpy(embed(net, source, np.arange(len(labels)), precision=precision))
    sums = torch.zeros(int(labels.max()) + 1, vectors.shape[1])
    sums.index_add_(0, torch.from_numpy(labels), vectors)
    return sums / torch.from_numpy(np.bincount(labels)).clamp(min=1)[:, None]
