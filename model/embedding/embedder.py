"""Embed crops as unit vectors, in batches, on the best engine of this machine."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import numpy as np

from model.bundle import Bundle
from model.embedding.engines import DEVICES, ENGINES, Engine, start

__all__ = ["DEVICES", "ENGINES", "Embedder"]

log = logging.getLogger(__name__)


class Embedder:
    """Embeds aligned crops with one bundle.

    A crop's vector does not depend on the rest of the batch. Thread-safe.

    Args:
        engine: One of :data:`ENGINES`: ``auto`` for the fastest on the device, ``fp32`` for the
            fastest of that precision, or one by name.
        device: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best available.
        batch_size: Most images per run, including mirror images; bounds memory.
        threads: Most threads ONNX Runtime may use; None for all processors.

    Raises:
        EngineUnavailable: The named engine or device is not available. An explicit choice is
            never replaced by another.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        engine: str = "auto",
        device: str = "auto",
        batch_size: int = 32,
        threads: int | None = None,
    ) -> None:
        self.bundle = bundle
        self.batch_size = batch_size
        self._engine: Engine | None = start(bundle, engine, device, threads)
        self.engine, self.device = self._engine.name, self._engine.device
        log.info("model %s runs on %s, %s", bundle.model_id[:12], self.engine, self.device)

    @property
    def model_id(self) -> str:
        return self.bundle.model_id

    def close(self) -> None:
        """Free the network's memory; the embedder cannot be used afterwards."""
        self._engine = None

    def embed(self, crops: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """Embed uint8 crops ``(N, 112, 112, 3)`` as float32 unit vectors ``(N, D)``."""
        if len(crops) == 0:
            return np.empty((0, self.bundle.dim or 0), np.float32)
        step = max(1, self.batch_size // 2) if self.bundle.preprocessing.flip else self.batch_size
        starts = range(0, len(crops), step)
        return np.concatenate([self._embed(crops[start : start + step]) for start in starts])

    def _embed(self, crops: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        assert self._engine is not None, "the embedder was closed"
        images = self.bundle.preprocessing(crops)
        if not self.bundle.preprocessing.flip:
            return _unit(self._engine(images))
        # One run for both is faster than two.
        both = _unit(self._engine(np.concatenate([images, images[..., ::-1]])))
        return _unit(both[: len(images)] + both[len(images) :])


def _unit(vectors: np.ndarray) -> np.ndarray:
    """Normalise rows to unit length, as float32; rows of zeros stay zero."""
    vectors = np.asarray(vectors, np.float32)
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True).clip(min=1e-12)
