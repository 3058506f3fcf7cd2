"""Convert a TensorFlow Lite MobileNetV2 (float or int8 weights) to torchvision's names.

TensorFlow Lite has folded the batch norms into convolutions with biases. Here every convolution
gets its bias as a batch norm that only adds. The first convolution is changed to take the input of
every trunk (:class:`~model.embedding.preprocess.Preprocessing`) instead of pixels from -1 to 1.
TensorFlow pads strided convolutions at the lower right only, torchvision on all sides.
"""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torchvision.models import mobilenet_v2

from model.embedding.preprocess import IMAGENET_MEAN, IMAGENET_STD
from training.errors import UsageError

MAGIC = b"TFL3"
TYPES = {0: np.float32, 2: np.int32, 9: np.int8}
HALF = 127.5
CLASSES = 1000


class Table:
    """A table of a FlatBuffers file; fields are numbered as in TensorFlow Lite's schema."""

    def __init__(self, content: bytes, place: int) -> None:
        self.content, self.place = content, place

    def field(self, number: int) -> int | None:
        """Where a field lies, or None if it is absent."""
        layout = self.place - self._read("<i", self.place)
        slot = 4 + 2 * number
        if slot >= self._read("<H", layout):
            return None
        offset = self._read("<H", layout + slot)
        return self.place + offset if offset else None

    def number(self, field: int, form: str) -> int:
        place = self.field(field)
        return 0 if place is None else self._read(form, place)

    def table(self, field: int) -> Table | None:
        place = self.field(field)
        return None if place is None else self._follow(place)

    def tables(self, field: int) -> list[Table]:
        start, count = self._vector(field)
        return [self._follow(start + 4 * index) for index in range(count)]

    def array(self, field: int, kind: type[np.generic]) -> np.ndarray:
        start, count = self._vector(field)
        return np.frombuffer(self.content, np.dtype(kind).newbyteorder("<"), count, start)

    def _vector(self, field: int) -> tuple[int, int]:
        place = self.field(field)
        if place is None:
            return 0, 0
        start = place + self._read("<I", place)
        return start + 4, self._read("<I", start)

    def _follow(self, place: int) -> Table:
        return Table(self.content, place + self._read("<I", place))

    def _read(self, form: str, place: int) -> int:
        return int(struct.unpack_from(form, self.content, place)[0])


def read_tflite(file: Path) -> list[tuple[np.ndarray, np.ndarray]]:
    """Weights and bias of every layer that has both, in the order of execution.

    Raises:
        UsageError: The file cannot be read.
    """
    content = file.read_bytes()
    if content[4:8] != MAGIC:
        raise UsageError(f"{file} is not a TensorFlow Lite model.")
    try:
        model = Table(content, struct.unpack_from("<I", content)[0])
        buffers, (graph, *_) = model.tables(4), model.tables(2)
        tensors = graph.tables(0)
        found = []
        for operator in graph.tables(3):
            inputs = [tensors[index] for index in operator.array(1, np.int32) if index >= 0]
            constant = [_values(t, buffers) for t in inputs if buffers[t.number(2, "<I")].field(0)]
            if len(inputs) == 3 and len(constant) == 2:
                found.append((constant[0], constant[1]))
        return found
    except (struct.error, IndexError, KeyError, ValueError) as error:
        raise UsageError(f"{file} cannot be read as a TensorFlow Lite model: {error}.") from error


def _values(tensor: Table, buffers: list[Table]) -> np.ndarray:
    """A constant tensor as float64, dequantised."""
    kind = TYPES[tensor.number(1, "<b")]
    raw = np.frombuffer(buffers[tensor.number(2, "<I")].array(0, np.uint8).tobytes(), kind)
    values = raw.reshape(tensor.array(0, np.int32)).astype(np.float64)
    quantised = tensor.table(4)
    scale = quantised.array(2, np.float32) if quantised else np.empty(0)
    if quantised and len(scale):
        shape = [1] * values.ndim
        shape[quantised.number(6, "<i")] = len(scale)
        zero = quantised.array(3, np.int64).reshape(shape)
        values = (values - zero) * scale.astype(np.float64).reshape(shape)
    return values


def to_mobilenet_v2(layers: list[tuple[np.ndarray, np.ndarray]]) -> dict[str, Tensor]:
    """Tensors by torchvision name, for RGB input with ImageNet normalisation, classifier included.

    Args:
        layers: From :func:`read_tflite`.

    Raises:
        UsageError: They are not a MobileNetV2's.
    """
    net = mobilenet_v2()
    kinds = (nn.Conv2d, nn.Linear)
    modules = [(name, m) for name, m in net.named_modules() if isinstance(m, kinds)]
    given = [_torch_layout(weight) for weight, _ in layers]
    biases = [bias for _, bias in layers]
    if given and given[-1].shape == (CLASSES + 1, net.last_channel, 1, 1):
        # The first networks were trained with a class for the background, and end in a convolution.
        given[-1], biases[-1] = given[-1][1:, :, 0, 0], biases[-1][1:]
    if [w.shape for w in given] != [tuple(m.weight.shape) for _, m in modules]:
        raise UsageError("The model is not a MobileNetV2 of width 1 with ImageNet's classes.")
    result: dict[str, np.ndarray] = {}
    for (name, module), weight, bias in zip(modules, given, biases, strict=True):
        if isinstance(module, nn.Linear):
            result |= {f"{name}.weight": weight, f"{name}.bias": bias}
            continue
        if name == "features.0.0":
            # The kernel was trained on the input (x * std + mean) / HALF - 1.
            bias = bias + np.einsum("ochw,c->o", weight, np.array(IMAGENET_MEAN) / HALF - 1)
            weight = weight * (np.array(IMAGENET_STD) / HALF)[:, None, None]
        parent, _, index = name.rpartition(".")
        norm = f"{parent}.{int(index) + 1}"
        epsilon = net.get_submodule(norm).eps
        ones = np.ones(len(weight))
        result |= {
            f"{name}.weight": weight, f"{norm}.weight": ones, f"{norm}.bias": bias,
            f"{norm}.running_mean": 0 * ones, f"{norm}.running_var": ones - epsilon,
        }  # fmt: skip
    return {name: torch.tensor(value.astype(np.float32)) for name, value in result.items()}


def _torch_layout(weight: np.ndarray) -> np.ndarray:
    """Output channels first, then input channels; depthwise kernels come as (1, h, w, channels)."""
    if weight.ndim == 2:
        return weight
    return weight.transpose(3, 0, 1, 2) if len(weight) == 1 else weight.transpose(0, 3, 1, 2)
