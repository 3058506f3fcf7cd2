"""The mean of several networks."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from model.bundle import Bundle, save_graph, save_network
from model.embedding import onnx_graph
from model.embedding.preprocess import Preprocessing
from tests.model.helpers import lively_network, small_bundle
from training.__main__ import main


@pytest.fixture
def two(tmp_path: Path) -> list[str]:
    """Two bundles of one kind, one of which is served with its mirror image."""
    small_bundle(tmp_path / "one", flip=True)
    other = lively_network(head_norm=True)
    with torch.no_grad():
        for tensor in (*other.parameters(), *other.buffers()):
            if tensor.is_floating_point():
                tensor.mul_(3)
    save_network(tmp_path / "two", other, Preprocessing(input_size=64), name="two", card="")
    return [str(tmp_path / "one"), str(tmp_path / "two")]


def test_parameters_and_statistics_are_the_means(two: list[str], tmp_path: Path) -> None:
    assert main(["average", "--bundles", *two, "--out", str(tmp_path / "mean")]) == 0
    mean = Bundle.load(tmp_path / "mean")
    assert mean.preprocessing.flip
    parts = [Bundle.load(path) for path in two]
    assert mean.provenance["mean of"] == [
        {"bundle": part.model_id, "from": part.provenance} for part in parts
    ]
    first, second, found = (
        load_file(Path(path) / "weights.safetensors") for path in (*two, mean.path)
    )
    for name, tensor in found.items():
        if tensor.is_floating_point():
            expected = (first[name].float() + second[name].float()) / 2
            torch.testing.assert_close(tensor.float(), expected, rtol=1e-3, atol=1e-6)
        else:
            assert torch.equal(tensor, first[name])


def test_what_cannot_be_averaged_is_refused(
    two: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    small_bundle(tmp_path / "small", input_size=32)
    save_network(
        tmp_path / "long", lively_network(dim=48), Preprocessing(input_size=64), name="l", card=""
    )
    graph = onnx_graph.export(lively_network(), 64)
    save_graph(tmp_path / "graph", graph, Preprocessing(input_size=64), name="g", card="")
    out = ["--out", str(tmp_path / "mean")]
    for bundles, more, sentence in (
        (two[:1], out, "needs two or more"),
        (two, ["--out", two[1]], "is one of --bundles"),
        ([two[0], str(tmp_path / "graph")], out, "imported graph"),
        ([two[0], str(tmp_path / "small")], out, "has another input"),
        ([two[0], str(tmp_path / "long")], out, "has another architecture"),
    ):
        assert main(["average", "--bundles", *bundles, *more]) == 2
        assert sentence in capsys.readouterr().err
    assert not (tmp_path / "mean").exists()
