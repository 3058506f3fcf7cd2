"""Cached features of frozen trunks, so that training a head for 500 epochs takes minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from model.atomic import made_whole
from model.embedding.network import Architecture, EmbeddingNet, fold_batch_norm
from model.embedding.preprocess import Preprocessing
from training.errors import UsageError
from training.inputs.keras_weights import stride_first, strides_first
from training.learn.inference import autocast
from training.learn.initial_weights import bundle_architecture, initialise, is_bundle

BATCH = 32


class Whole(nn.Module):
    """Trunk and pooling of an :class:`~model.embedding.network.EmbeddingNet`, without its head."""

    def __init__(self, net: EmbeddingNet) -> None:
        super().__init__()
        self.trunk, self.pool = net.trunk, net.pool
        self.width = net.trunk.width

    def forward(self, images: Tensor) -> Tensor:
        return self.pool(self.trunk(images))


def frozen_trunk(name: str, init: str | Path) -> Whole:
    """Load a trunk for feature extraction.

    Args:
        name: A trunk of :class:`~model.embedding.network.EmbeddingNet`.
        init: ``imagenet`` (torchvision's), a bundle, or a weight file (safetensors or ``.pth``)
            with torchvision's names.

    Raises:
        UsageError: Part of the trunk would be random.
    """
    held = bundle_architecture(str(init)) if is_bundle(str(init)) else Architecture(trunk=name)
    net = EmbeddingNet(held)
    fresh = initialise(net, str(init))
    if fresh:
        raise UsageError(
            f"--frozen would keep random weights: --init {init} has none for {', '.join(fresh)}. "
            "Give weights of the whole trunk, or train without --frozen."
        )
    if strides_first(Path(init)):
        # Trained weights adapt to torchvision's stride; frozen ones need the original.
        stride_first(net.trunk)
    return Whole(net).eval()


def weights_id(module: nn.Module) -> str:
    """Hash of a module's parameters, buffers and strides."""
    strides = [m.stride for m in module.modules() if isinstance(m, nn.Conv2d)]
    digest = hashlib.sha256(repr(strides).encode())
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def cached_features(
    trunk: Whole, images: np.ndarray, key: str, prepare: Preprocessing, cache: Path,
    precision: str = "fp32",
) -> np.ndarray:  # fmt: skip
    """Pooled features of every picture, computed once and then read from the cache.

    Args:
        trunk: From :func:`frozen_trunk`.
        images: uint8 ``(N, H, W, 3)``.
        key: Identifies the pictures (the stem of their cache file).
        precision: ``fp32``, or ``bf16``, which is faster on some processors.

    Returns:
        float32 array ``(N, width)``.
    """
    path = cache / f"features-{key}-{prepare.input_size}-{precision}-{weights_id(trunk)}.npy"
    if path.is_file():
        return np.load(path)
    result = np.empty((len(images), trunk.width), np.float32)
    trunk = fold_batch_norm(trunk).to(memory_format=torch.channels_last)
    with torch.inference_mode(), autocast(torch.device("cpu"), precision):
        for start in tqdm(range(0, len(images), BATCH), desc="features", unit="batch"):
            batch = torch.from_numpy(prepare(images[start : start + BATCH]))
            batch = batch.contiguous(memory_format=torch.channels_last)
            result[start : start + BATCH] = trunk(batch).float().numpy()
    with made_whole(path) as partial:
        np.save(partial, result)
    return result


def reduced(features: np.ndarray, rows: np.ndarray, count: int) -> np.ndarray:
    """Project features onto their leading principal components, ``(N, count)``.

    Args:
        features: float32 ``(N, width)``.
        rows: Rows to compute the components from (the training rows).
        count: Number of components, at most the width.
    """
    if count > features.shape[1]:
        raise UsageError(f"--reduce {count} is more than the {features.shape[1]} features.")
    own = features[rows].astype(np.float64)
    mean = own.mean(0)
    values, vectors = np.linalg.eigh(np.cov(own - mean, rowvar=False))
    leading = vectors[:, np.argsort(values)[::-1][:count]]
    # The signs of eigenvectors are arbitrary; fix them, so that runs agree between machines.
    leading *= np.sign(leading[np.abs(leading).argmax(0), np.arange(count)])
    return ((features - mean) @ leading).astype(np.float32)
