"""Cached teacher embeddings."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np

from model.embedding.embedder import Embedder
from training.atomic import made_whole
from training.learn.inference import BLOCK, embed_crops


def teacher_targets(teacher: Embedder, crops: np.ndarray, *, cache: Path) -> np.ndarray:
    """Unit vectors ``(N, D)`` of a teacher for aligned crops, cached by content.

    Args:
        teacher: Any embedder; an imported ONNX graph with ``flip`` averages mirror images.
        crops: uint8 ``(N, 112, 112, 3)``.
        cache: Folder for the result.
    """
    digest = hashlib.sha256(teacher.model_id.encode())
    for start in range(0, len(crops), BLOCK):
        digest.update(np.ascontiguousarray(crops[start : start + BLOCK]))
    file = cache / f"teacher-{digest.hexdigest()[:24]}.npy"
    if not file.exists():
        targets = embed_crops(teacher, crops, title="teacher")
        with made_whole(file) as partial:
            np.save(partial, targets)
    return np.load(file)
