"""Inference engines: torch or ONNX Runtime, on the best device of this machine.

torch is imported only to run a network or to export a graph that a bundle lacks.
"""

from __future__ import annotations

import ctypes
import importlib.util
import logging
import platform
import sys
from pathlib import Path
from typing import Protocol

import numpy as np

from model.bundle import Bundle
from model.embedding import graph_cache
from model.errors import EngineUnavailable
from model.onnx_runtime import onnxruntime, open_session
from model.pytorch import need_torch

log = logging.getLogger(__name__)

ENGINES = ("auto", "fp32", "torch", "onnxruntime", "onnxruntime-int8")
DEVICES = ("auto", "cpu", "cuda", "mps")

CPUINFO = Path("/proc/cpuinfo")
INT8_FLAGS = frozenset({"avx512_vnni", "avx_vnni", "amx_int8"})
"""Instructions that multiply 8-bit numbers fast, and without the saturation of plain AVX2."""

CUDA_DRIVERS = ("libcuda.so.1", "nvcuda.dll")
AMD_DEVICE = Path("/dev/kfd")


class Engine(Protocol):
    """Runs the network: float32 input ``(N, 3, S, S)`` to raw vectors ``(N, D)``."""

    name: str
    device: str

    def __call__(self, images: np.ndarray) -> np.ndarray: ...


class TorchEngine:
    """Runs the network in torch, with batch norms folded and channels last."""

    name = "torch"

    def __init__(self, bundle: Bundle, device: str) -> None:
        self.torch = need_torch()
        from model.embedding.network import fold_batch_norm

        self.device = device
        net = fold_batch_norm(bundle.network()).to(device)
        self.net = net.to(memory_format=self.torch.channels_last)

    def __call__(self, images: np.ndarray) -> np.ndarray:
        with self.torch.inference_mode():
            given = self.torch.from_numpy(np.ascontiguousarray(images))
            given = given.to(self.device, memory_format=self.torch.channels_last)
            return self.net(given).float().cpu().numpy()


class OnnxEngine:
    """Runs the network in ONNX Runtime, in fp32, or in int8 if the bundle has an int8 graph."""

    def __init__(
        self, bundle: Bundle, device: str, threads: int | None, *, int8: bool = False
    ) -> None:
        self.device = device
        self.name = "onnxruntime-int8" if int8 else "onnxruntime"
        graph = bundle.int8_file if int8 else bundle.graph_file or graph_cache.graph(bundle)
        if graph is None:
            raise EngineUnavailable(f"{bundle.name} carries no int8 graph; use onnxruntime.")
        if int8 and not (device == "cpu" and computes_int8()):
            raise EngineUnavailable(
                "int8 needs a CPU with VNNI or AMX instructions, or its results differ; use "
                "onnxruntime."
            )
        self.session = open_session(graph, device=device, threads=threads)
        self.input = self.session.get_inputs()[0].name

    def __call__(self, images: np.ndarray) -> np.ndarray:
        return self.session.run(None, {self.input: images})[0]


def start(bundle: Bundle, engine: str, device: str, threads: int | None) -> Engine:
    """Start an engine on a device; ``auto`` chooses the fastest available, ``fp32`` of that
    precision.

    On a CPU the fastest is int8, if the bundle has such a graph and the CPU the instructions.

    Raises:
        EngineUnavailable: The named engine or device is not available.
    """
    if engine not in ENGINES:
        raise ValueError(f"engine is {engine!r}; it must be one of {', '.join(ENGINES)}")
    if device not in DEVICES:
        raise ValueError(f"device is {device!r}; it must be one of {', '.join(DEVICES)}")
    if bundle.architecture is None:
        return _start_imported(bundle, engine, device, threads)
    if device == "auto":
        device = "cpu" if engine == "onnxruntime-int8" else _best_device()
    if engine in ("auto", "fp32"):
        int8 = engine == "auto" and bundle.int8_file is not None and computes_int8()
        on_cpu = "onnxruntime-int8" if int8 else "onnxruntime"
        engine = on_cpu if device == "cpu" else "torch"
    if engine != "torch":
        return OnnxEngine(bundle, device, threads, int8=engine == "onnxruntime-int8")
    if not _has(device):
        raise EngineUnavailable(f"torch has no {device} device on this machine.")
    return TorchEngine(bundle, device)


def _start_imported(bundle: Bundle, engine: str, device: str, threads: int | None) -> Engine:
    if engine == "torch":
        raise EngineUnavailable(f"{bundle.name} is an ONNX graph; torch cannot run it.")
    if engine == "onnxruntime-int8":
        return OnnxEngine(bundle, "cpu", threads, int8=True)
    if device != "auto":
        return OnnxEngine(bundle, device, threads)
    if "CUDAExecutionProvider" in onnxruntime.get_available_providers():
        try:
            return OnnxEngine(bundle, "cuda", threads)
        except EngineUnavailable as error:
            log.warning("%s The processor is used instead.", error)
    return OnnxEngine(bundle, "cpu", threads)


def computes_int8(cpuinfo: Path = CPUINFO) -> bool:
    """Return whether this CPU has instructions for int8 networks; False if Linux does not say."""
    try:
        lines = cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.startswith("flags")), "")
    return not INT8_FLAGS.isdisjoint(flags.split())


def _best_device() -> str:
    """Return the best device torch can use; without a GPU, torch is not imported."""
    if not _may_have_gpu() or importlib.util.find_spec("torch") is None:
        return "cpu"
    return next((device for device in ("cuda", "mps") if _has(device)), "cpu")


def _may_have_gpu() -> bool:
    if sys.platform == "darwin":
        return platform.machine() == "arm64"
    return AMD_DEVICE.exists() or any(_loads(driver) for driver in CUDA_DRIVERS)


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _has(device: str) -> bool:
    if device == "cuda":
        return need_torch().cuda.is_available()
    if device == "mps":
        return need_torch().backends.mps.is_available()
    return device == "cpu"
