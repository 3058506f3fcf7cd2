"""Weights of a TensorFlow Lite MobileNetV2, written with the FlatBuffers library."""

from __future__ import annotations

from pathlib import Path

import flatbuffers
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file
from torch import nn
from torchvision.models import mobilenet_v2

from model.embedding.preprocess import Preprocessing
from training.__main__ import main
from training.errors import UsageError
from training.inputs.features import frozen_trunk
from training.inputs.tflite_weights import read_tflite, to_mobilenet_v2

Layer = tuple[np.ndarray, np.ndarray, np.ndarray]
"""int8 weights as TensorFlow Lite stores them, a scale per output channel, int32 bias."""


def layers() -> list[Layer]:
    """A MobileNetV2's layers with random weights."""
    rng, found = np.random.default_rng(0), []
    for module in mobilenet_v2().modules():
        if isinstance(module, nn.Conv2d):
            out, inside, side, _ = module.weight.shape
            shape = (1, side, side, out) if module.groups > 1 else (out, side, side, inside)
        elif isinstance(module, nn.Linear):
            shape = tuple(module.weight.shape)
            out = len(module.weight)
        else:
            continue
        weight = rng.integers(-127, 128, shape).astype(np.int8)
        scale = rng.uniform(1e-4, 2e-3, out).astype(np.float32)
        found.append((weight, scale, rng.integers(-500, 500, out).astype(np.int32)))
    return found


def write(path: Path, found: list[Layer]) -> Path:
    """A .tflite file with these layers, each after a layer without weights."""
    builder = flatbuffers.Builder(1 << 22)

    def table(fields: dict[int, int], numbers: dict[int, int] | None = None) -> int:
        builder.StartObject(8)
        for place, value in fields.items():
            builder.PrependUOffsetTRelativeSlot(place, value, 0)
        for place, value in (numbers or {}).items():
            if place == 1:
                builder.PrependInt8Slot(place, value, 0)
            elif place == 2:
                builder.PrependUint32Slot(place, value, 0)
            else:
                builder.PrependInt32Slot(place, value, 0)
        return builder.EndObject()

    def vector(offsets: list[int]) -> int:
        builder.StartVector(4, len(offsets), 4)
        for offset in reversed(offsets):
            builder.PrependUOffsetTRelative(offset)
        return builder.EndVector()

    def numbers(values: np.ndarray) -> int:
        return builder.CreateNumpyVector(np.ascontiguousarray(values))

    buffers, tensors, operators = [table({})], [table({0: numbers(np.int32([1]))})], []
    for weight, scale, bias in found:
        axis = 3 if weight.ndim == 4 and len(weight) == 1 else 0
        for values, place in ((weight, axis), (bias, 0)):
            raw = numbers(np.frombuffer(values.tobytes(), np.uint8))
            buffers.append(table({0: raw}))
            zeros = numbers(np.zeros(len(scale), np.int64))
            quantised = table({2: numbers(scale), 3: zeros}, {6: place})
            shape = numbers(np.int32(values.shape))
            kind = {1: 9 if values.dtype == np.int8 else 2, 2: len(buffers) - 1}
            tensors.append(table({0: shape, 4: quantised}, kind))
        operators.append(table({1: numbers(np.int32([0]))}))
        operators.append(table({1: numbers(np.int32([0, len(tensors) - 2, len(tensors) - 1]))}))
    graph = table({0: vector(tensors), 3: vector(operators)})
    model = table({2: vector([graph]), 4: vector(buffers)})
    builder.Finish(model, file_identifier=b"TFL3")
    path.write_bytes(bytes(builder.Output()))
    return path


def test_converted_layers_give_what_the_file_says(tmp_path: Path) -> None:
    found = layers()
    source, out = write(tmp_path / "net.tflite", found), tmp_path / "out.safetensors"
    assert main(["convert", str(source), "--out", str(out)]) == 0
    net = mobilenet_v2().eval()
    missing, strange = net.load_state_dict(load_file(out), strict=False)
    assert strange == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    assert frozen_trunk("mobilenet_v2", out).width == 1280

    def real(index: int) -> tuple[torch.Tensor, torch.Tensor]:
        weight, scale, bias = found[index]
        if len(weight) == 1:
            weight = weight.transpose(3, 0, 1, 2)
        elif weight.ndim == 4:
            weight = weight.transpose(0, 3, 1, 2)
        scaled = weight * scale.reshape(-1, *[1] * (weight.ndim - 1))
        return torch.tensor(scaled).float(), torch.tensor(bias * scale).float()

    pixels = np.random.default_rng(1).integers(0, 256, (2, 32, 32, 3)).astype(np.uint8)
    with torch.inference_mode():
        ours = net.features[0](torch.from_numpy(Preprocessing(input_size=32)(pixels)))
        plain = torch.from_numpy(pixels).permute(0, 3, 1, 2) / 127.5 - 1
        theirs = F.relu6(F.conv2d(plain, *real(0), stride=2, padding=1))
        # Beyond the edge one sees grey, the other the mean colour.
        torch.testing.assert_close(ours[..., 1:, 1:], theirs[..., 1:, 1:], rtol=1e-3, atol=1e-3)
        assert theirs.std() > 0.1
        maps = torch.rand(2, 32, 8, 8)
        depthwise = F.relu6(F.conv2d(maps, *real(1), padding=1, groups=32))
        torch.testing.assert_close(net.features[1].conv[0](maps), depthwise)
        last = torch.rand(2, 1280)
        torch.testing.assert_close(net.classifier[1](last), F.linear(last, *real(52)))


def test_a_class_for_the_background_is_left_out(tmp_path: Path) -> None:
    found = layers()
    weight, scale, bias = found.pop()
    extra = np.ones((1, 1, 1, weight.shape[1]), np.int8)
    kernel = np.concatenate([extra, weight[:, None, None]])
    found.append((kernel, np.append(scale[:1], scale), np.append(bias[:1], bias)))
    given = to_mobilenet_v2(read_tflite(write(tmp_path / "net.tflite", found)))
    expected = torch.tensor(weight * scale[:, None]).float()
    torch.testing.assert_close(given["classifier.1.weight"], expected)
    torch.testing.assert_close(given["classifier.1.bias"], torch.tensor(bias * scale).float())


def test_what_is_no_mobilenet_is_refused(tmp_path: Path) -> None:
    files = {
        "text": b"no model at all",
        "cut": write(tmp_path / "net.tflite", layers()[:1]).read_bytes()[:700],
        "short": write(tmp_path / "net.tflite", layers()[:-1]).read_bytes(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UsageError):
            to_mobilenet_v2(read_tflite(tmp_path / name))
