"""Convert a Keras ResNet saved for TensorFlow.js to weights with torchvision's names.

The networks differ in layout only: Keras stores kernels height first, its convolutions have biases,
its batch norm has another epsilon, and its input is BGR minus the mean instead of RGB divided by
the standard deviation. All of this folds into the tensors, so that the network takes the same input
as every trunk (:class:`~model.embedding.preprocess.Preprocessing`). The position of the stride
cannot be folded; the file's metadata records it.
"""

from __future__ import annotations

import json
import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from torch import Tensor, nn

from model.embedding.preprocess import IMAGENET_MEAN, IMAGENET_STD
from training.errors import UsageError

METADATA = {"stride": "conv1"}
"""The stride is in a block's first convolution, as in He et al.; in torchvision, in its 3x3."""

CAFFE_MEAN = (123.68, 116.779, 103.939)
KERAS_EPSILON, TORCH_EPSILON = 1e-3, 1e-5
BRANCHES = {"2a": ("conv1", "bn1"), "2b": ("conv2", "bn2"), "2c": ("conv3", "bn3"),
            "1": ("downsample.0", "downsample.1")}  # fmt: skip
BLOCK = re.compile(r"res([2-5])([a-z])_branch(2a|2b|2c|1)$")


def read_tfjs(folder: Path) -> dict[str, np.ndarray]:
    """Read the tensors of a ``model.json`` and its shards, by name.

    Raises:
        UsageError: The folder has no such model, or a damaged one.
    """
    file = folder / "model.json"
    if not file.is_file():
        raise UsageError(f"{folder} holds no model.json; give the folder that does.")
    try:
        groups: list[dict[str, Any]] = json.loads(file.read_text(encoding="utf-8"))[
            "weightsManifest"
        ]
        return {name: array for group in groups for name, array in _group(folder, group)}
    except (KeyError, TypeError, ValueError, OSError) as error:
        raise UsageError(f"{file} cannot be read as a TensorFlow.js model: {error}.") from error


def _group(folder: Path, group: dict[str, Any]) -> list[tuple[str, np.ndarray]]:
    # Use only the file name: shards lie beside the manifest, and paths in it are not trusted.
    content = b"".join((folder / Path(name).name).read_bytes() for name in group["paths"])
    found, start = [], 0
    for entry in group["weights"]:
        if entry["dtype"] != "float32" or "quantization" in entry:
            raise ValueError(f"{entry['name']} is not plain float32")
        count = math.prod(entry["shape"])
        array = np.frombuffer(content, "<f4", count, start).reshape(entry["shape"])
        found.append((entry["name"], array))
        start += 4 * count
    if start != len(content):
        raise ValueError(f"its shards hold {len(content):,} bytes, its weights {start:,}")
    return found


def to_torchvision(given: dict[str, np.ndarray]) -> dict[str, Tensor]:
    """Convert a Keras bottleneck ResNet (``res2a_branch2a``, ...), classifier included.

    Args:
        given: Arrays by Keras name, ``layer/part``.

    Returns:
        Float32 tensors by torchvision name, for RGB input with ImageNet normalisation.

    Raises:
        UsageError: A layer is missing, or does not belong to such a network.
    """
    layers = sorted({name.rpartition("/")[0] for name in given})
    result: dict[str, Tensor] = {}
    for layer in layers:
        if layer.startswith("bn"):
            continue
        try:
            if (block := BLOCK.match(layer)) is not None:
                stage, letter, branch = block.groups()
                place = f"layer{int(stage) - 1}.{ord(letter) - ord('a')}"
                conv, norm = (f"{place}.{name}" for name in BRANCHES[branch])
                result |= _convolution(given, layer, layer.replace("res", "bn"), conv, norm)
            elif layer == "conv1":
                result |= _convolution(given, layer, "bn_conv1", "conv1", "bn1")
            elif f"{layer}/kernel" in given and given[f"{layer}/kernel"].ndim == 2:
                result["fc.weight"] = torch.tensor(given[f"{layer}/kernel"].T.copy())
                result["fc.bias"] = torch.tensor(given[f"{layer}/bias"].copy())
            else:
                raise UsageError(f"{layer} does not belong to a bottleneck ResNet.")
        except KeyError as error:
            raise UsageError(f"The model lacks {error.args[0]}.") from error
    return result


def _convolution(
    given: dict[str, np.ndarray], layer: str, batch_norm: str, conv: str, norm: str
) -> dict[str, Tensor]:
    kernel = given[f"{layer}/kernel"].transpose(3, 2, 0, 1).astype(np.float64)
    bias = given[f"{layer}/bias"].astype(np.float64)
    if layer == "conv1":
        kernel = kernel[:, ::-1]  # BGR to RGB
        # The kernel was trained on the input x * std + mean - CAFFE_MEAN.
        shift = np.array(IMAGENET_MEAN) - np.array(CAFFE_MEAN)
        bias = bias + np.einsum("ochw,c->o", kernel, shift)
        kernel = kernel * np.array(IMAGENET_STD)[:, None, None]
    parts = {
        f"{conv}.weight": kernel,
        f"{norm}.weight": given[f"{batch_norm}/gamma"],
        f"{norm}.bias": given[f"{batch_norm}/beta"],
        # torchvision's convolutions have no bias; subtract it from the batch-norm mean.
        f"{norm}.running_mean": given[f"{batch_norm}/moving_mean"] - bias,
        f"{norm}.running_var": given[f"{batch_norm}/moving_variance"]
        + (KERAS_EPSILON - TORCH_EPSILON),
    }
    return {name: torch.tensor(value.astype(np.float32)) for name, value in parts.items()}


def strides_first(path: Path) -> bool:
    """Whether a file's weights were trained with the stride in a block's first convolution."""
    if path.suffix == ".pth" or not path.is_file():
        return False
    with safe_open(path, "pt") as file:
        return (file.metadata() or {}).get("stride") == METADATA["stride"]


def stride_first(trunk: nn.Module) -> None:
    """Move the stride of a ResNet-50's blocks from the 3x3 convolution to the first 1x1."""
    for stage in (trunk.layer2, trunk.layer3, trunk.layer4):
        stage[0].conv1.stride, stage[0].conv2.stride = (2, 2), (1, 1)
