"""PyTorch, imported only where it is needed: training, GPUs and the making of graphs."""

from __future__ import annotations

from types import ModuleType

from model.errors import EngineUnavailable


def need_torch() -> ModuleType:
    """torch, or one sentence on how to get it.

    Raises:
        EngineUnavailable: It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise EngineUnavailable(
            "This needs PyTorch, which is not installed here: pip install -r requirements.txt"
        ) from error
    return torch
