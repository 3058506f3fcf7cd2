"""Checkpoints that are whole or absent, and hold nothing but tensors and plain values."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch


def save(path: Path, state: dict[str, Any]) -> None:
    """Write a checkpoint so that a crash at any moment leaves the old one or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    with partial.open("wb") as file:
        torch.save(state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def load(path: Path) -> dict[str, Any]:
    """Read a checkpoint; refuses anything that would have to run code to be read."""
    return torch.load(path, map_location="cpu", weights_only=True)
