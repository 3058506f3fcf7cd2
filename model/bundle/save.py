"""Save models as bundles: our own networks and imported graphs."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from safetensors.numpy import save

from model.bundle.bundle import CARD, GRAPH, WEIGHTS, Bundle, model_id_of
from model.bundle.files import write_folder
from model.embedding.architecture import Architecture
from model.embedding.preprocess import Preprocessing

if TYPE_CHECKING:
    from model.embedding.network import EmbeddingNet, FacenetNet


def save_network(
    path: str | os.PathLike[str],
    net: EmbeddingNet | FacenetNet,
    preprocessing: Preprocessing,
    *,
    name: str,
    card: str,
    provenance: Mapping[str, Any] | None = None,
    metrics: Mapping[str, Any] | None = None,
    mantissa_bits: int = 10,
) -> Bundle:
    """Write a network as a bundle, all or nothing, and read it back.

    Args:
        net: A network from :func:`model.embedding.network.build`.
        mantissa_bits: fp16 mantissa bits kept in weight matrices, 1 to 10. Fewer compress
            better. With b bits the relative error of a weight is at most 2^-(b+1), plus an
            absolute 2^-24 that fp16 cannot resolve near zero.
    """
    from model.embedding import onnx_graph

    state = {
        key: _compact(tensor.detach().cpu().numpy(), mantissa_bits)
        for key, tensor in net.state_dict().items()
    }
    weights = save(state)
    graph = onnx_graph.export_beside(net, preprocessing.input_size, weights, WEIGHTS)
    architecture = net.architecture.to_dict()
    return _save(
        Path(path), {WEIGHTS: weights, GRAPH: graph}, architecture, preprocessing, name, card,
        provenance, metrics,
    )  # fmt: skip


def save_graph(
    path: str | os.PathLike[str],
    graph: bytes,
    preprocessing: Preprocessing,
    *,
    name: str,
    card: str,
    provenance: Mapping[str, Any] | None = None,
) -> Bundle:
    """Write an imported, mended ONNX graph as a bundle, all or nothing, and read it back."""
    files = {GRAPH: graph}
    return _save(Path(path), files, None, preprocessing, name, card, provenance, None)


def _save(
    folder: Path,
    files: Mapping[str, bytes],
    architecture: dict[str, Any] | None,
    preprocessing: Preprocessing,
    name: str,
    card: str,
    provenance: Mapping[str, Any] | None,
    metrics: Mapping[str, Any] | None,
) -> Bundle:
    bundle = Bundle(
        path=folder,
        name=name,
        model_id=model_id_of(
            files[WEIGHTS if architecture else GRAPH], architecture, preprocessing
        ),
        architecture=Architecture(**architecture) if architecture else None,
        preprocessing=preprocessing,
        provenance=provenance or {},
        metrics=metrics or {},
        versions=_versions(),
    )
    write_folder(folder, bundle.manifest(), {**files, CARD: card.encode()})
    return Bundle.load(folder)


def _versions() -> dict[str, str]:
    """Versions of the installed libraries that affect models."""
    found = {}
    for package in ("torch", "torchvision", "onnx"):
        with contextlib.suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


def _compact(values: np.ndarray, mantissa_bits: int) -> np.ndarray:
    """Round weight matrices to fp16 with a shorter mantissa; keep vectors and counters."""
    if values.ndim < 2 or values.dtype.kind != "f":
        return np.array(values, order="C")
    if not 1 <= mantissa_bits <= 10:
        raise ValueError(f"mantissa_bits is {mantissa_bits}; it must be between 1 and 10")
    # Networks in channels-last keep their strides, which safetensors would ignore.
    mantissa, exponent = np.frexp(values.astype(np.float32, order="C"))
    steps = np.float32(2.0 ** (mantissa_bits + 1))
    return np.ldexp(np.round(mantissa * steps) / steps, exponent).astype(np.float16)
