"""Frozen trunks: pooled features computed once, so that 500 epochs of a head take minutes."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from tqdm import tqdm

from model.embedding.network import Architecture, EmbeddingNet, load_trunk
from model.embedding.preprocess import Preprocessing
from training.atomic import made_whole
from training.errors import UsageError
from training.learn.initial_weights import bundle_architecture, initialise, is_bundle

BATCH = 32


class Layer3(nn.Module):
    """A ResNet-50 cut after ``layer3``: 1,024 features, for weights that lack ``layer4``.

    The original network of He et al. strides in the first 1x1 convolution of a block,
    torchvision's in the 3x3; frozen weights need the stride they were trained with.
    """

    width = 1024

    def __init__(self, path: Path) -> None:
        super().__init__()
        net = EmbeddingNet(Architecture(trunk="resnet50"))
        fresh = set(load_trunk(net, path)) - {"layer4"}
        if fresh:
            raise UsageError(f"{path} lacks weights of {', '.join(sorted(fresh))}.")
        trunk = net.trunk
        for block in (trunk.layer2[0], trunk.layer3[0]):
            block.conv1.stride, block.conv2.stride = (2, 2), (1, 1)
        stem = (trunk.conv1, trunk.bn1, trunk.relu, trunk.maxpool)
        self.blocks = nn.Sequential(*stem, trunk.layer1, trunk.layer2, trunk.layer3)

    def forward(self, images: Tensor) -> Tensor:
        return self.blocks(images).mean((2, 3))


class Whole(nn.Module):
    """Trunk and pooling of an :class:`~model.embedding.network.EmbeddingNet`, without its head."""

    def __init__(self, net: EmbeddingNet) -> None:
        super().__init__()
        self.trunk, self.pool = net.trunk, net.pool
        self.width = net.trunk.width

    def forward(self, images: Tensor) -> Tensor:
        return self.pool(self.trunk(images))


def frozen_trunk(name: str, init: str | Path, pooling: str = "avg") -> Whole | Layer3:
    """A trunk for feature extraction.

    Args:
        name: ``resnet50_layer3``, or a trunk of :class:`~model.embedding.network.EmbeddingNet`.
        init: ``imagenet`` (torchvision's), a bundle, or a weight file with torchvision's names,
            safetensors or ``.pth``.
        pooling: Only ``avg``; the argument is there to refuse the others.

    Raises:
        UsageError: Some of the trunk would be random, or the features pooled otherwise.
    """
    if pooling != "avg":
        raise UsageError(
            f"A frozen trunk's features are averaged; --pooling {pooling} is for a trunk that is "
            "trained. Leave out --pooling or --frozen."
        )
    weights = Path(init)
    if name == "resnet50_layer3":
        if not weights.is_file():
            raise UsageError(f"There is no weight file {weights}. Give one with --init.")
        return Layer3(weights).eval()
    held = bundle_architecture(str(init)) if is_bundle(str(init)) else Architecture(trunk=name)
    net = EmbeddingNet(held)
    fresh = initialise(net, str(init))
    if fresh:
        raise UsageError(
            f"--frozen would keep random weights: --init {init} has none for {', '.join(fresh)}. "
            "Give weights of the whole trunk, train without --frozen, or, for a ResNet-50 that "
            "lacks layer4, say --trunk resnet50_layer3."
        )
    return Whole(net).eval()


def weights_id(module: nn.Module) -> str:
    """Hash of a module's parameters and buffers."""
    digest = hashlib.sha256()
    for name, value in sorted(module.state_dict().items()):
        digest.update(name.encode() + value.contiguous().numpy().tobytes())
    return digest.hexdigest()[:16]


def cached_features(
    trunk: Whole | Layer3, images: np.ndarray, key: str, size: int, cache: Path
) -> np.ndarray:
    """Pooled features of every picture, computed at the first call.

    Args:
        trunk: From :func:`frozen_trunk`.
        images: uint8 ``(N, H, W, 3)``.
        key: Identifies the pictures (their cache file's name).
        size: Side in pixels at which the trunk sees them.
        cache: Folder for the result.

    Returns:
        float32 array ``(N, width)``.
    """
    path = cache / f"features-{key}-{size}-{weights_id(trunk)}.npy"
    if path.is_file():
        return np.load(path)
    prepare = Preprocessing(input_size=size)
    result = np.empty((len(images), trunk.width), np.float32)
    trunk.to(memory_format=torch.channels_last)
    with torch.inference_mode():
        for start in tqdm(range(0, len(images), BATCH), desc="features", unit="batch"):
            batch = prepare(images[start : start + BATCH])
            batch = batch.to(memory_format=torch.channels_last)
            result[start : start + BATCH] = trunk(batch).float().numpy()
    with made_whole(path) as partial:
        np.save(partial, result)
    return result
