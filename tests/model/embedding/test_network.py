from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from model.embedding.network import (
    TRUNKS,
    Architecture,
    EmbeddingNet,
    Mean,
    fold_batch_norm,
    load_imagenet,
    load_trunk,
)
from model.errors import BundleError
from tests.model.helpers import lively_network


@pytest.mark.parametrize("trunk", TRUNKS)
@pytest.mark.parametrize("size", [64, 112, 224])
def test_any_trunk_gives_unit_vectors_at_any_size(trunk: str, size: int) -> None:
    net = EmbeddingNet(Architecture(trunk=trunk, dim=48)).eval()
    with torch.inference_mode():
        vectors = net(torch.randn(2, 3, size, size))
    assert vectors.shape == (2, 48)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(2))


def test_pooling_against_numpy() -> None:
    maps = torch.rand(3, 5, 4, 4) + 0.1
    values = maps.numpy().reshape(3, 5, -1)
    np.testing.assert_allclose(Mean()(maps), values.mean(2), rtol=1e-5)


@pytest.mark.parametrize("trunk", TRUNKS)
def test_folding_changes_nothing_but_leaves_no_batch_norm(trunk: str) -> None:
    net = lively_network(trunk=trunk, head_norm=True)
    folded = fold_batch_norm(net)
    images = torch.randn(2, 3, 64, 64)
    with torch.inference_mode():
        torch.testing.assert_close(folded(images), net(images), atol=1e-5, rtol=0)
    norms = (nn.BatchNorm1d, nn.BatchNorm2d)
    assert any(isinstance(module, norms) for module in net.modules())
    assert not any(isinstance(module, norms) for module in folded.modules())


def test_partial_trunk_file_starts_what_it_holds_and_names_the_rest(tmp_path: Path) -> None:
    source = lively_network().trunk.state_dict()
    part = {key: value for key, value in source.items() if not key.startswith("layer4")}
    save_file(part, tmp_path / "trunk.safetensors")
    net = EmbeddingNet(Architecture(trunk="resnet18"))
    assert load_trunk(net, tmp_path / "trunk.safetensors") == ["layer4"]
    torch.testing.assert_close(net.trunk.layer3[0].conv1.weight, source["layer3.0.conv1.weight"])


def test_a_trunk_file_that_does_not_fit_is_refused_whole(tmp_path: Path) -> None:
    save_file({"conv1.weight": torch.zeros(1, 1, 7, 7)}, tmp_path / "bad.safetensors")
    net = EmbeddingNet(Architecture(trunk="resnet18"))
    before = net.trunk.conv1.weight.clone()
    with pytest.raises(BundleError, match=r"conv1\.weight"):
        load_trunk(net, tmp_path / "bad.safetensors")
    torch.testing.assert_close(net.trunk.conv1.weight, before)


def test_the_shared_imagenet_trunk_fits(shared_data: Path) -> None:
    net = EmbeddingNet()
    assert load_trunk(net, shared_data / "resnet50_imagenet" / "trunk.safetensors") == ["layer4"]


def test_imagenet_weights_that_cannot_be_had_name_the_choices(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    with pytest.raises(BundleError, match="--init"):
        load_imagenet(EmbeddingNet(Architecture(trunk="resnet18")))


def test_an_unknown_trunk_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="resnet50, resnet18, mobilenet_v2"):
        EmbeddingNet(Architecture(trunk="vgg"))
