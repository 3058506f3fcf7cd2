"""Atomic checkpoints of tensors and plain values."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import torch

from model.atomic import made_whole
from model.errors import FaceError


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint atomically: a crash leaves either the old or the new one."""
    with made_whole(path) as partial, partial.open("wb") as file:
        torch.save(state, file)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint without running any code in it (``weights_only``).

    Raises:
        FaceError: The file is damaged, or not a checkpoint.
    """
    if not zipfile.is_zipfile(path):  # torch.save writes zip files
        raise FaceError(
            f"{path} cannot be read: it is damaged or not a checkpoint. Delete it to start again."
        )
    return torch.load(path, map_location="cpu", weights_only=True)
