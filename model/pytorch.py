"""Import PyTorch only when needed: for training, GPUs and exporting graphs."""

from __future__ import annotations

from types import ModuleType

from model.errors import EngineUnavailable


def need_torch() -> ModuleType:
    """Import and return torch.

    Raises:
        EngineUnavailable: torch is not installed; the message says how to install it.
    """
    try:
        import torch
    except ImportError as error:
        raise EngineUnavailable(
            "This needs PyTorch, which is not installed here: pip install -r requirements.txt"
        ) from error
    return torch
