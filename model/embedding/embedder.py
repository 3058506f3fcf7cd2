"""Crops to unit vectors, in batches, on the best engine this machine has."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from model.bundle import Bundle
from model.embedding import onnx_graph
from model.embedding.network import fold_batch_norm
from model.errors import EngineUnavailable
from model.onnx_runtime import onnxruntime, open_session

log = logging.getLogger(__name__)

ENGINES = ("auto", "torch", "onnxruntime")
DEVICES = ("auto", "cpu", "cuda", "mps")
NO_CACHE = (OSError, RuntimeError)
"""A folder that cannot be written, or a user without a home."""


class Engine(Protocol):
    """Runs the network: normalised images ``(N, 3, S, S)`` to raw vectors ``(N, D)``."""

    name: str
    device: str

    def __call__(self, images: Tensor) -> Tensor: ...


class TorchEngine:
    """The network in torch, batch norm folded, channels last."""

    name = "torch"

    def __init__(self, bundle: Bundle, device: str) -> None:
        self.device = device
        net = fold_batch_norm(bundle.network())
        self.net = net.to(device, memory_format=torch.channels_last)

    @torch.inference_mode()
    def __call__(self, images: Tensor) -> Tensor:
        images = images.to(self.device, memory_format=torch.channels_last)
        return self.net(images).float().cpu()


class OnnxEngine:
    """The network in ONNX Runtime; our own graphs are made once per model and cached."""

    name = "onnxruntime"

    def __init__(self, bundle: Bundle, device: str, threads: int | None) -> None:
        self.device = device
        self.session = open_session(_graph(bundle), device=device, threads=threads)
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images: Tensor) -> Tensor:
        return torch.from_numpy(self.session.run(None, {self.input: images.numpy()})[0])


class Embedder:
    """Embeds aligned crops with one bundle.

    The same crop gives the same vector whatever else is in the batch, and calls from several
    threads may overlap.

    Args:
        bundle: The model.
        engine: ``torch``, ``onnxruntime``, or ``auto`` for the faster one on the device.
        device: ``cpu``, ``cuda``, ``mps``, or ``auto`` for the best there is.
        batch_size: Most crops run at once; bounds memory.
        threads: Processors ONNX Runtime may use at once; all of them without.

    Raises:
        EngineUnavailable: The named engine or device is not on this machine. A named choice is
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
        self._engine = _start(bundle, engine, device, threads)
        log.info("model %s runs on %s, %s", bundle.model_id[:12], self.engine, self.device)

    @property
    def model_id(self) -> str:
        return self.bundle.model_id

    @property
    def engine(self) -> str:
        return self._engine.name

    @property
    def device(self) -> str:
        return self._engine.device

    def embed(self, crops: np.ndarray | Sequence[np.ndarray]) -> np.ndarray:
        """uint8 crops ``(N, 112, 112, 3)`` to float32 unit vectors ``(N, D)``."""
        if len(crops) == 0:
            return np.empty((0, self.bundle.dim or 0), np.float32)
        starts = range(0, len(crops), self.batch_size)
        parts = [self._embed(crops[start : start + self.batch_size]) for start in starts]
        return torch.cat(parts).numpy()

    def _embed(self, crops: np.ndarray | Sequence[np.ndarray]) -> Tensor:
        images = self.bundle.preprocessing(crops)
        vectors = F.normalize(self._engine(images), dim=1)
        if self.bundle.preprocessing.flip:
            mirrored = F.normalize(self._engine(images.flip(3).contiguous()), dim=1)
            vectors = F.normalize(vectors + mirrored, dim=1)
        return vectors


def cache_dir() -> Path:
    """Where derived files live: ``FACE_CACHE``, else a folder in the user's cache.

    Made for the owner only; one that is there already keeps the permissions it was given.
    """
    home = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(os.environ.get("FACE_CACHE") or Path(home) / "face-verification")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _start(bundle: Bundle, engine: str, device: str, threads: int | None) -> Engine:
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; it must be one of {', '.join(ENGINES)}")
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}")
    if bundle.architecture is None:
        if engine == "torch":
            raise EngineUnavailable(f"{bundle.name} is an ONNX graph; torch cannot run it.")
        if device != "auto":
            return OnnxEngine(bundle, device, threads)
        if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
            try:
                return OnnxEngine(bundle, "cuda", threads)
            except EngineUnavailable as error:
                log.warning("%s The processor is used instead.", error)
        return OnnxEngine(bundle, "cpu", threads)
    device = _best_device() if device == "auto" else device
    if engine == "auto":
        engine = "onnxruntime" if device == "cpu" else "torch"
    if engine == "onnxruntime":
        return OnnxEngine(bundle, device, threads)
    if not _has(device):
        raise EngineUnavailable(f"torch has no {device} device on this machine.")
    return TorchEngine(bundle, device)


def _best_device() -> str:
    return next((device for device in ("cuda", "mps") if _has(device)), "cpu")


def _has(device: str) -> bool:
    if device == "cuda":
        return torch.cuda.is_available()
    if device == "mps":
        return torch.backends.mps.is_available()
    return device == "cpu"


def _graph(bundle: Bundle) -> bytes:
    """The model's graph, from the cache where it is ours; made when missing or damaged there."""
    if bundle.architecture is None:
        return bundle.graph()
    name = f"{bundle.model_id}-{onnx_graph.EXPORT_VERSION}.onnx"
    with contextlib.suppress(*NO_CACHE):
        if (kept := _kept(cache_dir() / name)) is not None:
            return kept
    graph = onnx_graph.export(bundle.network(), bundle.preprocessing.input_size)
    try:
        file = cache_dir() / name
        _replace(file, graph)
        _replace(_checksum(file), hashlib.sha256(graph).hexdigest().encode())
    except NO_CACHE as error:
        log.warning(
            "The graph cannot be kept and is made at every start; name a folder in FACE_CACHE: %s",
            error,
        )
    return graph


def _kept(file: Path) -> bytes | None:
    if not (file.exists() and _checksum(file).exists()):
        return None
    graph = file.read_bytes()
    if hashlib.sha256(graph).hexdigest() == _checksum(file).read_text():
        return graph
    log.warning("%s is damaged and is made again", file)
    return None


def _checksum(file: Path) -> Path:
    return file.with_suffix(".sha256")


def _replace(file: Path, data: bytes) -> None:
    descriptor, temporary = tempfile.mkstemp(dir=file.parent)
    try:
        with open(descriptor, "wb") as writer:
            writer.write(data)
        os.replace(temporary, file)
    finally:
        Path(temporary).unlink(missing_ok=True)
