"""ONNX graphs: make them from our networks, mend foreign ones, open them."""

from __future__ import annotations

import io
import warnings

import numpy as np
import onnx
import torch
from torch import nn

from model.embedding.network import fold_batch_norm
from model.errors import BundleError

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
