"""Decoded pictures, cached as a uint8 memory map named by the hash of its input."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import torch
from tqdm import tqdm

from model.atomic import made_whole
from model.embedding.tensors import resize
from model.faces.image import load_image
from training.datasets.table import Table


def fingerprint(table: Table, *settings: object) -> str:
    """Hash of the settings and of every file's content, in order."""
    digest = hashlib.sha256(repr(settings).encode())
    for path in table.paths:
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:20]


def square(image: np.ndarray, size: int) -> np.ndarray:
    """Shorter side to ``size`` pixels, then the central square, uint8 ``(size, size, 3)``."""
    height, width = image.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    centre = np.ascontiguousarray(image[top : top + side, left : left + side])
    if side == size:
        return centre
    pixels = torch.from_numpy(centre).permute(2, 0, 1)[None].float()
    return resize(pixels, size)[0].round().clamp(0, 255).byte().permute(1, 2, 0).numpy()


def pictures(table: Table, size: int, cache: Path) -> np.memmap:
    """All pictures as a read-only uint8 memory map ``(N, size, size, 3)``, decoded once."""
    path = cache / f"{table.name}-{size}-{fingerprint(table, size)}.npy"
    if not path.is_file():
        shape = (len(table), size, size, 3)
        rows = tqdm(table.paths, desc=f"decoding {table.name}", unit="img")
        with made_whole(path) as partial:
            store = np.lib.format.open_memmap(partial, mode="w+", dtype=np.uint8, shape=shape)
            for row, file in enumerate(rows):
                store[row] = square(load_image(file), size)
            store.flush()
    return np.load(path, mmap_mode="r")
