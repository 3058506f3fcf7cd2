"""Export our networks to ONNX, and repair graphs made by other tools."""

from __future__ import annotations

import io
import json
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import torch
from torch import nn
from torch.onnx import TrainingMode

from model.embedding.graph_check import check_graph
from model.embedding.network import fold_batch_norm
from model.errors import BundleError

STORED = {"F16": onnx.TensorProto.FLOAT16, "F32": onnx.TensorProto.FLOAT}
"""Data types of stored weights, by their safetensors names."""


def export(net: nn.Module, input_size: int) -> bytes:
    """Export a network for inference, with a dynamic batch dimension."""
    return _exported(fold_batch_norm(net).float(), input_size, TrainingMode.EVAL)


def export_beside(net: nn.Module, input_size: int, weights: bytes, file: str) -> bytes:
    """Export a graph that reads its weights from the safetensors file in the same folder.

    The runtime widens fp16 weights and folds batch norms when it opens the graph. So the graph is
    small and uses exactly the weights of the file.

    Args:
        net: The network whose weights were saved; it is not changed.
        input_size: Side of its input in pixels.
        weights: The contents of the safetensors file.
        file: The file's name in the folder of the graph.
    """
    was_training = net.training
    # Evaluation mode without the exporter's folding: the weights must stay those of the file.
    proto = onnx.load_from_string(_exported(net.eval(), input_size, TrainingMode.PRESERVE))
    net.train(was_training)
    return beside(proto, weights, file, dict.fromkeys(_header(weights)))


def beside(
    proto: onnx.ModelProto, weights: bytes, file: str, factors: Mapping[str, np.ndarray | None]
) -> bytes:
    """Let a graph read its weights from a safetensors file, and return the graph without them.

    Args:
        proto: The graph; it is changed.
        weights: The contents of the safetensors file.
        file: The file's name in the folder of the graph.
        factors: The weights to read, and what each row is multiplied by, or None.
    """
    header, start = _header(weights), 8 + int.from_bytes(weights[:8], "little")
    first: list[onnx.NodeProto] = []
    for tensor in [tensor for tensor in proto.graph.initializer if tensor.name in factors]:
        name, entry, factor = tensor.name, header[tensor.name], factors[tensor.name]
        read = wide = name
        if factor is not None:
            read = wide = f"{name}.plain"
            by = factor.reshape(-1, *[1] * (len(entry["shape"]) - 1))
            proto.graph.initializer.append(onnx.numpy_helper.from_array(by, f"{name}.factor"))
            first.append(onnx.helper.make_node("Mul", [wide, f"{name}.factor"], [name]))
        if entry["dtype"] == "F16":
            read = f"{name}.half"
            first.insert(
                0, onnx.helper.make_node("Cast", [read], [wide], to=onnx.TensorProto.FLOAT)
            )
        tensor.Clear()
        tensor.name = read
        tensor.data_type = STORED[entry["dtype"]]
        tensor.dims.extend(entry["shape"])
        tensor.data_location = onnx.TensorProto.EXTERNAL
        begin, end = entry["data_offsets"]
        place = {"location": file, "offset": start + begin, "length": end - begin}
        for key, value in place.items():
            tensor.external_data.add(key=key, value=str(value))
    nodes = [*first, *proto.graph.node]
    del proto.graph.node[:]
    proto.graph.node.extend(nodes)
    return proto.SerializeToString()


def _header(weights: bytes) -> dict[str, Any]:
    """What a safetensors file says of its tensors."""
    return json.loads(weights[8 : 8 + int.from_bytes(weights[:8], "little")])


def _exported(net: nn.Module, input_size: int, mode: TrainingMode) -> bytes:
    example = torch.zeros(2, 3, input_size, input_size, device=next(net.parameters()).device)
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            (example,),
            buffer,  # type: ignore[arg-type]  # the exporter without dynamo writes to buffers
            input_names=["image"],
            output_names=["embedding"],
            dynamic_axes={"image": {0: "batch"}, "embedding": {0: "batch"}},
            training=mode,
            do_constant_folding=mode is TrainingMode.EVAL,
            dynamo=False,
        )
    return buffer.getvalue()


def mend(graph: bytes) -> bytes:
    """Make the weights of an imported graph constants and its batch dimension dynamic.

    Old exporters list every weight as an input and fix the batch size to one. Runtimes then
    neither optimise the graph nor batch it.

    Raises:
        BundleError: This is not an ONNX graph with one input and an output that have dimensions.
    """
    check_graph(graph)
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


def input_side(graph: bytes) -> int:
    """Return the last dimension of a mended graph's input, in pixels; 0 if it is dynamic."""
    dimensions = onnx.load_from_string(graph).graph.input[0].type.tensor_type.shape.dim
    return dimensions[-1].dim_value


def multiplied(graph: bytes, matrix: np.ndarray) -> bytes:
    """Multiply a mended graph's first output, vectors ``(batch, D)``, by a ``(D, D)`` matrix.

    Raises:
        BundleError: The graph cannot be extended.
    """
    proto = onnx.load_from_string(graph)
    output = proto.graph.output[0]
    given, taken = output.name, f"{output.name}_multiplied"
    kind = onnx.helper.tensor_dtype_to_np_dtype(output.type.tensor_type.elem_type)
    weights = onnx.numpy_helper.from_array(matrix.T.astype(kind), f"{taken}_by")
    proto.graph.initializer.append(weights)
    proto.graph.node.append(onnx.helper.make_node("MatMul", [given, weights.name], [taken]))
    output.name = taken
    # Older versions of the format require weights among the inputs; `mend` removed them.
    proto.ir_version = max(proto.ir_version, 4)
    try:
        onnx.checker.check_model(proto)
    except Exception as error:  # onnx raises protobuf, checker and value errors alike
        raise BundleError(f"The ONNX graph cannot be extended: {error}") from error
    return proto.SerializeToString()
