"""Weights of a Keras ResNet, against that network written out layer by layer."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from torchvision.models import ResNet
from torchvision.models.resnet import Bottleneck

from model.embedding.preprocess import Preprocessing
from training.__main__ import main
from training.errors import UsageError
from training.inputs.features import frozen_trunk, weights_id
from training.inputs.keras_weights import CAFFE_MEAN, read_tfjs, stride_first, to_torchvision

STAGES = ((2, 64), (3, 128), (4, 256), (5, 512))


def toy() -> dict[str, np.ndarray]:
    """A ResNet with one block a stage under Keras's names, and ten classes."""
    rng = np.random.default_rng(0)
    found: dict[str, np.ndarray] = {}

    def convolution(layer: str, norm: str, size: int, inside: int, outside: int) -> None:
        found[f"{layer}/kernel"] = rng.normal(size=(size, size, inside, outside)) / np.sqrt(
            size * size * inside
        )
        found[f"{layer}/bias"] = rng.normal(size=outside)
        found[f"{norm}/gamma"] = rng.uniform(0.5, 1.5, outside)
        found[f"{norm}/beta"] = rng.normal(size=outside)
        found[f"{norm}/moving_mean"] = rng.normal(size=outside)
        # Small, so that the epsilon of batch norm matters.
        found[f"{norm}/moving_variance"] = rng.uniform(0.001, 0.5, outside)

    convolution("conv1", "bn_conv1", 7, 3, 64)
    found["bn_conv1/moving_variance"] *= 1e3  # Pixels are large.
    inside = 64
    for stage, width in STAGES:
        for branch, size, before, after in (
            ("2a", 1, inside, width), ("2b", 3, width, width), ("2c", 1, width, 4 * width),
            ("1", 1, inside, 4 * width),
        ):  # fmt: skip
            name = f"{stage}a_branch{branch}"
            convolution(f"res{name}", f"bn{name}", size, before, after)
        inside = 4 * width
    found["fc1000/kernel"] = rng.normal(size=(2048, 10)) / 45
    found["fc1000/bias"] = rng.normal(size=10)
    return {name: value.astype(np.float32) for name, value in found.items()}


def keras(found: dict[str, np.ndarray], pixels: np.ndarray) -> Tensor:
    """Classes of pictures uint8 ``(N, H, W, 3)`` by the network as Keras defines it."""

    def layer(x: Tensor, name: str, norm: str, stride: int = 1, padding: int = 0) -> Tensor:
        parts = {key: torch.tensor(found[f"{norm}/{key}"]) for key in (
            "gamma", "beta", "moving_mean", "moving_variance")}  # fmt: skip
        kernel = torch.tensor(found[f"{name}/kernel"]).permute(3, 2, 0, 1)
        x = F.conv2d(x, kernel, torch.tensor(found[f"{name}/bias"]), stride, padding)
        return F.batch_norm(
            x, parts["moving_mean"], parts["moving_variance"], parts["gamma"], parts["beta"],
            eps=1e-3,
        )  # fmt: skip

    bgr = torch.from_numpy(pixels[..., ::-1].astype(np.float32)).permute(0, 3, 1, 2)
    x = bgr - torch.tensor(CAFFE_MEAN[::-1]).view(1, 3, 1, 1)
    x = F.max_pool2d(F.relu(layer(x, "conv1", "bn_conv1", 2, 3)), 3, 2, 1)
    for stage, _ in STAGES:
        stride = 1 if stage == 2 else 2
        name = f"{stage}a_branch"
        inner = F.relu(layer(x, f"res{name}2a", f"bn{name}2a", stride))
        inner = F.relu(layer(inner, f"res{name}2b", f"bn{name}2b", 1, 1))
        inner = layer(inner, f"res{name}2c", f"bn{name}2c")
        x = F.relu(inner + layer(x, f"res{name}1", f"bn{name}1", stride))
    weight = torch.tensor(found["fc1000/kernel"])
    return x.mean((2, 3)) @ weight + torch.tensor(found["fc1000/bias"])


def write(folder: Path, found: dict[str, np.ndarray]) -> Path:
    """A ``model.json`` with two shards that are cut in the middle of a tensor."""
    folder.mkdir()
    content = b"".join(value.tobytes() for value in found.values())
    paths = ["group1-shard1of2.bin", "group1-shard2of2.bin"]
    for path, part in zip(paths, (content[:12345], content[12345:]), strict=True):
        (folder / path).write_bytes(part)
    weights = [
        {"name": name, "shape": value.shape, "dtype": "float32"} for name, value in found.items()
    ]
    manifest = {"weightsManifest": [{"paths": paths, "weights": weights}]}
    (folder / "model.json").write_text(json.dumps(manifest))
    return folder


def test_converted_network_gives_what_the_keras_one_gives(tmp_path: Path) -> None:
    found = toy()
    folder, file = write(tmp_path / "ResNet", found), tmp_path / "out.safetensors"
    assert main(["convert", str(folder), "--out", str(file)]) == 0
    net = ResNet(Bottleneck, [1, 1, 1, 1], num_classes=10).eval()
    missing, strange = net.load_state_dict(load_file(file), strict=False)
    assert strange == []
    assert all(name.endswith("num_batches_tracked") for name in missing)
    stride_first(net)
    pixels = np.random.default_rng(1).integers(0, 256, (2, 96, 96, 3)).astype(np.uint8)
    with torch.inference_mode():
        ours = net(torch.from_numpy(Preprocessing(input_size=96)(pixels)))
    # Beyond the edge both see the mean colour, which differs by half a step in 255.
    torch.testing.assert_close(ours, keras(found, pixels), rtol=0.01, atol=0.01)


def test_frozen_trunk_strides_where_the_file_says(tmp_path: Path) -> None:
    state = {k: v.contiguous() for k, v in ResNet(Bottleneck, [3, 4, 6, 3]).state_dict().items()}
    strides = {}
    for name, metadata in (("torchvision", None), ("keras", {"stride": "conv1"})):
        save_file(state, tmp_path / f"{name}.safetensors", metadata=metadata)
        trunk = frozen_trunk("resnet50", tmp_path / f"{name}.safetensors")
        block = trunk.trunk.layer3[0]
        strides[name] = block.conv1.stride, block.conv2.stride, weights_id(trunk)
    assert strides["torchvision"][:2] == ((1, 1), (2, 2))
    assert strides["keras"][:2] == ((2, 2), (1, 1))
    assert strides["keras"][2] != strides["torchvision"][2]


def test_what_is_no_such_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        read_tfjs(tmp_path)
    folder = write(tmp_path / "cut", toy())
    (folder / "group1-shard2of2.bin").write_bytes(b"1234")
    with pytest.raises(UsageError):
        read_tfjs(folder)
    found = toy()
    del found["bn4a_branch2b/gamma"]
    with pytest.raises(UsageError, match="bn4a_branch2b/gamma"):
        to_torchvision(found)
    with pytest.raises(UsageError, match="block_1_expand"):
        to_torchvision({**toy(), "block_1_expand/kernel": np.zeros((1, 1, 3, 3))})
