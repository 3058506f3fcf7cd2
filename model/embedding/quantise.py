"""Quantise networks to int8: less than half the time on CPUs with int8 dot products.

Convolutions run in int8, with weights quantised per output channel and activations per tensor.
What 8 bits resolve too coarsely stays in fp32: the sums of residual blocks, every layer before
the first such sum, and the head. Biases are then moved until the means after each block are those
of the fp32 network. All of this is measured on real crops.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from safetensors.numpy import load

from model.bundle.bundle import WEIGHTS, Bundle
from model.embedding import onnx_graph
from model.embedding.preprocess import Preprocessing
from model.onnx_runtime import open_session

BATCH = 16
CLIPPED = 99.999
"""Percentile of a batch's activations that the largest 8-bit number stands for."""

JOINED = {"Relu", "Clip"}
"""Operators that ONNX Runtime joins with the quantised convolution before them."""

LARGEST, LARGEST_WEIGHT, LARGEST_BIAS = 255, 127, 2**30
WITH_BIAS = 3
"""Inputs of a layer that adds a bias."""


def quantise(bundle: Bundle, crops: np.ndarray) -> bytes:
    """Make the int8 graph of a bundle's network; it reads its weights from the bundle's file.

    Args:
        bundle: A bundle with a network.
        crops: uint8 ``(N, 112, 112, 3)``: a few hundred aligned faces of people on whom nothing
            is reported.
    """
    size = bundle.preprocessing.input_size
    network = onnx.load_from_string(onnx_graph.export(bundle.network(), size))
    batches = list(_batches(bundle.preprocessing, crops))
    results = _results(network)
    ranges = _ranges(network, results, batches)
    ends = _block_ends(network, results)
    wanted = _means(network, list(ends), batches)
    shifts: dict[str, np.ndarray] = {}
    for end, layer in ends.items():
        made = _quantised(network, results, ranges, shifts)
        shifts[layer] = wanted[end] - _means(made, [end], batches)[end]
    made = _quantised(network, results, ranges, shifts)
    weights = (bundle.path / WEIGHTS).read_bytes()
    return onnx_graph.beside(made, weights, WEIGHTS, _factors(network, weights))


def _batches(preprocessing: Preprocessing, crops: np.ndarray) -> Iterator[np.ndarray]:
    """Network input; every second batch is mirrored if the embedder uses mirror images."""
    for start in range(0, len(crops), BATCH):
        images = preprocessing(crops[start : start + BATCH])
        mirrored = preprocessing.flip and start // BATCH % 2
        yield np.ascontiguousarray(images[..., ::-1]) if mirrored else images


def _results(network: onnx.ModelProto) -> dict[str, str]:
    """Outputs of the layers to quantise, and the same after their activation function."""
    nodes = list(network.graph.node)
    users = defaultdict(list)
    for node in nodes:
        for name in node.input:
            users[name].append(node)
    first_sum = next((at for at, node in enumerate(nodes) if node.op_type == "Add"), 1)
    results = {}
    for node in nodes[first_sum:]:
        if node.op_type == "Conv" and len(node.input) == WITH_BIAS:
            output = node.output[0]
            after = users[output]
            joined = len(after) == 1 and after[0].op_type in JOINED
            results[output] = after[0].output[0] if joined else output
    return results


def _block_ends(network: onnx.ModelProto, results: Mapping[str, str]) -> dict[str, str]:
    """Outputs whose means are corrected, in order, and the layer whose bias does it."""
    ends = {}
    for node in network.graph.node:
        output = node.output[0]
        if node.op_type == "Gemm" and len(node.input) == WITH_BIAS:
            ends[output] = output
        elif node.op_type == "Add" and (own := [name for name in node.input if name in results]):
            ends[output] = own[0]
    return ends


def _ranges(
    network: onnx.ModelProto, results: Mapping[str, str], batches: Sequence[np.ndarray]
) -> dict[str, tuple[np.float32, np.uint8]]:
    """Scale and zero point of each activation that is quantised."""
    inputs = {node.input[0] for node in network.graph.node if node.output[0] in results}
    names = sorted({*inputs, *results.values()})
    bounds = np.zeros((len(names), 2))
    for outputs in _outputs(network, names, batches):
        for at, values in enumerate(outputs):
            bounds[at] += np.percentile(values, (100 - CLIPPED, CLIPPED)) / len(batches)
    scales = {}
    for name, (low, high) in zip(names, bounds, strict=True):
        scale = (max(high, 0) - min(low, 0)) / LARGEST or 1.0
        scales[name] = np.float32(scale), np.uint8(round(-min(low, 0) / scale))
    return scales


def _means(
    network: onnx.ModelProto, names: Sequence[str], batches: Sequence[np.ndarray]
) -> dict[str, np.ndarray]:
    """Mean of each channel of some outputs."""
    sums = {name: np.zeros(1) for name in names}
    for outputs in _outputs(network, names, batches):
        for name, values in zip(names, outputs, strict=True):
            sums[name] = sums[name] + values.mean((0, *range(2, values.ndim)))
    return {name: total / len(batches) for name, total in sums.items()}


def _outputs(
    network: onnx.ModelProto, names: Sequence[str], batches: Sequence[np.ndarray]
) -> Iterator[list[np.ndarray]]:
    looked = onnx.ModelProto()
    looked.CopyFrom(network)
    looked.graph.output.extend(
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names
    )
    session = open_session(looked.SerializeToString())
    for images in batches:
        yield session.run(list(names), {"image": images})


def _quantised(
    network: onnx.ModelProto,
    results: Mapping[str, str],
    ranges: Mapping[str, tuple[np.float32, np.uint8]],
    shifts: Mapping[str, np.ndarray],
) -> onnx.ModelProto:
    """The network with its layers in int8.

    Args:
        network: The network in fp32.
        results: The layers, from :func:`_results`.
        ranges: Scale and zero point of the activations.
        shifts: What is added to the biases of layers, by the layer's output.
    """
    made = onnx.ModelProto()
    made.CopyFrom(network)
    graph = made.graph
    del graph.node[:]
    tensors = {tensor.name: tensor for tensor in graph.initializer}

    def constant(name: str, values: np.ndarray) -> str:
        graph.initializer.append(numpy_helper.from_array(values, name))
        return name

    def add(kind: str, inputs: Sequence[str], output: str, **attributes: Any) -> str:
        graph.node.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def there_and_back(name: str, scale: np.ndarray, zero: np.ndarray, **axis: Any) -> str:
        by = [constant(f"{name}.scale", scale), constant(f"{name}.zero", zero)]
        codes = add("QuantizeLinear", [name, *by], f"{name}.int8", **axis)
        return add("DequantizeLinear", [codes, *by], f"{name}.fp32", **axis)

    for original in network.graph.node:
        node = onnx.NodeProto()
        node.CopyFrom(original)
        output = node.output[0]
        shift = shifts.get(output)
        if output in results:
            source, weight, bias = node.input
            matrix = numpy_helper.to_array(tensors[weight])
            most = np.abs(matrix).reshape(len(matrix), -1).max(1)
            moved = numpy_helper.to_array(tensors[bias]) + (0 if shift is None else shift)
            # A channel of almost no weight must still express its bias.
            least = np.abs(moved) / LARGEST_BIAS / ranges[source][0]
            scale = np.maximum(most / LARGEST_WEIGHT, least).clip(min=1e-12).astype(np.float32)
            zeros = np.zeros(len(scale), np.int8)
            step = scale * ranges[source][0]
            codes = constant(f"{bias}.int32", np.round(moved / step).astype(np.int32))
            node.input[0] = f"{source}.fp32"
            node.input[1] = there_and_back(weight, scale, zeros, axis=0)
            node.input[2] = add(
                "DequantizeLinear", [codes, constant(f"{bias}.scale", step)], f"{bias}.fp32", axis=0
            )
            graph.initializer.remove(tensors[bias])
        else:
            for at, name in enumerate(node.input):
                if name in results.values():
                    node.input[at] = f"{name}.fp32"
            if shift is not None:
                bias = tensors[node.input[2]]
                moved = numpy_helper.to_array(bias) + shift.astype(np.float32)
                bias.CopyFrom(numpy_helper.from_array(moved, bias.name))
        graph.node.append(node)
        if output in ranges:
            there_and_back(output, *map(np.asarray, ranges[output]))
    return made


def _factors(network: onnx.ModelProto, weights: bytes) -> dict[str, np.ndarray]:
    """What folded batch norms multiply the rows of the stored matrices by."""
    stored = load(weights)
    factors = {}
    for tensor in network.graph.initializer:
        folded, plain = numpy_helper.to_array(tensor), stored.get(tensor.name)
        if folded.ndim < 2 or plain is None or plain.shape != folded.shape:
            continue
        wanted = folded.reshape(len(folded), -1).astype(np.float64)
        rows = plain.reshape(wanted.shape).astype(np.float64)
        factor = (rows * wanted).sum(1) / (rows**2).sum(1).clip(min=1e-30)
        if np.allclose(rows * factor[:, None], wanted, rtol=1e-3, atol=1e-6):
            factors[tensor.name] = factor.astype(np.float32)
    return factors
