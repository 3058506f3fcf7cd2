"""ONNX graphs: make them from our networks, mend foreign ones, open them."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

import numpy as np
import onnx
import torch
from torch import nn

from model.embedding.network import fold_batch_norm
from model.embedding.onnx_runtime import onnxruntime
from model.errors import BundleError, EngineUnavailable
from model.workers import processors

EXPORT_VERSION = 1
"""Raise it with every change to the graphs :func:`export` makes: cached ones are named by it."""


def export(net: nn.Module, input_size: int) -> bytes:
    """An ONNX graph of a network in inference form, with a free batch dimension."""
    example = torch.zeros(2, 3, input_size, input_size)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            fold_batch_norm(net).float(),
            (example,),
            buffer,
            input_names=["image"],
            output_names=["embedding"],
            dynamic_axes={"image": {0: "batch"}, "embedding": {0: "batch"}},
            dynamo=False,
        )
    return buffer.getvalue()


def mend(graph: bytes) -> bytes:
    """A foreign graph with weights that are constants and a batch dimension that is free.

    Exporters of some years ago listed every weight as an input and fixed the batch to one;
    runtimes then neither optimise the graph nor batch it.

    Raises:
        BundleError: The bytes are no ONNX graph with one input and an output that have dimensions.
    """
    try:
        proto = onnx.load_from_string(graph)
        onnx.checker.check_model(proto)
    except Exception as error:  # onnx raises protobuf, checker and value errors alike
        raise BundleError(f"This file is not a usable ONNX graph: {error}") from error
    weights = {tensor.name for tensor in proto.graph.initializer}
    inputs = [value for value in proto.graph.input if value.name not in weights]
    if len(inputs) != 1 or len(proto.graph.output) < 1:
        raise BundleError(
            f"The ONNX graph has {len(inputs)} inputs and {len(proto.graph.output)} outputs; "
            "a face embedder has one image input."
        )
    for value in (inputs[0], proto.graph.output[0]):
        dimensions = value.type.tensor_type.shape.dim
        if not dimensions:
            raise BundleError(
                f"{value.name} of the ONNX graph has no dimensions; a face embedder takes a batch "
                "of images and gives a batch of vectors."
            )
        dimensions[0].dim_param = "batch"
    del proto.graph.input[:]
    proto.graph.input.extend(inputs)
    del proto.graph.value_info[:]
    return proto.SerializeToString()


def multiplied(graph: bytes, matrix: np.ndarray) -> bytes:
    """A mended graph whose first output, vectors ``(batch, D)``, is multiplied by ``(D, D)``.

    Raises:
        BundleError: The graph cannot be added to.
    """
    proto = onnx.load_from_string(graph)
    output = proto.graph.output[0]
    given, taken = output.name, f"{output.name}_multiplied"
    kind = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    weights = onnx.numpy_helper.from_array(matrix.T.astype(kind), f"{taken}_by")
    proto.graph.initializer.append(weights)
    proto.graph.node.append(onnx.helper.make_node("MatMul", [given, weights.name], [taken]))
    output.name = taken
    # Older versions of the format want weights listed as inputs, which `mend` has undone.
    proto.ir_version = max(proto.ir_version, 4)
    try:
        onnx.checker.check_model(proto)
    except Exception as error:  # onnx raises protobuf, checker and value errors alike
        raise BundleError(f"The ONNX graph cannot be added to: {error}") from error
    return proto.SerializeToString()


def open_session(
    graph: bytes | Path, *, device: str = "cpu", threads: int | None = None
) -> onnxruntime.InferenceSession:
    """An ONNX Runtime session on exactly the asked-for device."""
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device)
    if provider not in onnxruntime.get_available_providers():
        raise EngineUnavailable(
            f"ONNX Runtime has no {device} support on this machine; it offers "
            f"{', '.join(onnxruntime.get_available_providers())}."
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or processors()
    # Idle threads would spin, and take the processor from whoever finds the next faces.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = graph if isinstance(graph, bytes) else str(graph)
    session = onnxruntime.InferenceSession(source, options, providers=[provider])
    if session.get_providers()[0] != provider:  # it falls back to the processor without a word
        raise EngineUnavailable(f"ONNX Runtime could not start on {device}; its log says why.")
    return session
