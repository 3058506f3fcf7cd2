"""Small real bundles and pictures for tests."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import nn

from model.bundle import Bundle, save_network
from model.bundle.bundle import GRAPH
from model.bundle.files import MANIFEST, write_folder
from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing


def lively_network(**architecture: object) -> EmbeddingNet:
    """A network whose batch norms do something, as after training."""
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(**{"trunk": "resnet18", "dim": 32, **architecture}))
    for module in net.modules():
        if isinstance(module, nn.BatchNorm1d | nn.BatchNorm2d):
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 2)
            nn.init.uniform_(module.weight, 0.5, 1.5)
    return net.eval()


def small_bundle(path: Path, **preprocessing: object) -> Bundle:
    """A ResNet18 bundle with random weights."""
    return save_network(
        path,
        lively_network(head_norm=True),
        Preprocessing(**{"input_size": 64, **preprocessing}),
        name="small",
        card="# small\n",
        provenance={"data": "none"},
    )


def without_graph(bundle: Bundle) -> Bundle:
    """The same model as it was saved before bundles carried a graph; rewrites its folder."""
    files = {file.name: file.read_bytes() for file in bundle.path.iterdir()}
    kept = {name: data for name, data in files.items() if name not in (MANIFEST, GRAPH)}
    write_folder(bundle.path, bundle.manifest(), kept)
    return Bundle.load(bundle.path)


def random_crops(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, (count, 112, 112, 3), np.uint8)


def scene(width: int = 40, height: int = 24) -> np.ndarray:
    """A smooth picture with a red corner top left: its orientation shows."""
    yy, xx = np.mgrid[0:height, 0:width]
    pixels = np.stack([xx * 255 // width, yy * 255 // height, np.full_like(xx, 90)], axis=2)
    pixels[: height // 3, : width // 3] = (220, 20, 20)
    return pixels.astype(np.uint8)


def encoded(picture: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    picture.save(buffer, kind, **options)
    return buffer.getvalue()
