"""int8 graphs: what they compute, where they run, and that they share a model's id."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
import torch

from model.bundle import Bundle, save_network
from model.bundle.bundle import INT8_GRAPH, WEIGHTS
from model.embedding import engines
from model.embedding.embedder import Embedder
from model.embedding.preprocess import Preprocessing
from model.embedding.quantise import quantise
from model.errors import EngineUnavailable
from tests.model.helpers import lively_network, random_crops, small_bundle

runs_int8 = pytest.mark.skipif(
    not engines.computes_int8(), reason="this CPU has no instructions for int8"
)

FLAGS = "processor\t: 0\nflags\t\t: fpu avx2 {}\nbugs\t\t: avx_vnni\n"


@pytest.fixture(scope="module")
def carrying(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    plain = small_bundle(tmp_path_factory.mktemp("int8") / "b", flip=True)
    return plain.with_int8(quantise(plain, random_crops(64)))


@pytest.fixture(scope="module")
def graph(carrying: Bundle) -> onnx.GraphProto:
    return onnx.load(str(carrying.path / INT8_GRAPH), load_external_data=False).graph


@runs_int8
def test_int8_and_fp32_vectors_are_those_of_one_model(carrying: Bundle) -> None:
    crops = random_crops(64, seed=1)
    found, exact = (
        Embedder(carrying, engine=engine, device="cpu").embed(crops)
        for engine in ("onnxruntime-int8", "onnxruntime")
    )
    alike = (found * exact).sum(axis=1)
    assert alike.min() > 0.995
    assert alike.max() < 0.999999
    error = found - exact
    assert np.abs(error.mean(axis=0)).mean() < 0.4 * np.abs(error).mean(), "a common error is left"


def test_the_int8_graph_reads_its_weights_from_the_file_of_the_bundle(
    carrying: Bundle, graph: onnx.GraphProto
) -> None:
    assert (carrying.path / INT8_GRAPH).stat().st_size < 0.02 * (
        carrying.path / WEIGHTS
    ).stat().st_size
    outside = {
        entry.value
        for tensor in graph.initializer
        for entry in tensor.external_data
        if entry.key == "location"
    }
    assert outside == {WEIGHTS}


def test_the_first_block_and_all_sums_stay_in_fp32(graph: onnx.GraphProto) -> None:
    made_by = {node.output[0]: node for node in graph.node}
    first_sum = next(at for at, node in enumerate(graph.node) if node.op_type == "Add")
    layers = [(at, node) for at, node in enumerate(graph.node) if node.op_type == "Conv"]
    for at, layer in layers:
        quantised = [
            name in made_by and made_by[name].op_type == "DequantizeLinear" for name in layer.input
        ]
        assert all(quantised) if at > first_sum else not any(quantised)
    users = [(name, node) for node in graph.node for name in node.input]
    sums = [node.output[0] for node in graph.node if node.op_type == "Add"]
    assert {node.op_type for name, node in users if name in sums} == {"Relu"}


def test_int8_is_chosen_only_where_the_bundle_and_the_cpu_have_it(
    carrying: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "computes_int8", lambda: True)
    assert Embedder(carrying, device="cpu").engine == "onnxruntime-int8"
    assert Embedder(carrying, engine="onnxruntime-int8").device == "cpu"
    for exact in ("fp32", "onnxruntime"):
        assert Embedder(carrying, engine=exact, device="cpu").engine == "onnxruntime"
    plain = small_bundle(tmp_path / "plain")
    assert Embedder(plain, device="cpu").engine == "onnxruntime"
    with pytest.raises(EngineUnavailable):
        Embedder(plain, engine="onnxruntime-int8", device="cpu")
    monkeypatch.setattr(engines, "computes_int8", lambda: False)
    assert Embedder(carrying, device="cpu").engine == "onnxruntime"
    with pytest.raises(EngineUnavailable):
        Embedder(carrying, engine="onnxruntime-int8", device="cpu")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FLAGS.format("avx512_vnni"), True),
        (FLAGS.format("avx_vnni"), True),
        (FLAGS.format("amx_int8 amx_tile"), True),
        (FLAGS.format("avx512f"), False),
        ("Features\t: fp asimd\n", False),
    ],
)
def test_the_cpu_says_whether_it_computes_int8(tmp_path: Path, text: str, expected: bool) -> None:
    (tmp_path / "cpuinfo").write_text(text)
    assert engines.computes_int8(tmp_path / "cpuinfo") is expected
    assert not engines.computes_int8(tmp_path / "missing")


@runs_int8
def test_a_channel_without_weight_keeps_its_bias(tmp_path: Path) -> None:
    net = lively_network(head_norm=True)
    with torch.no_grad():
        net.trunk.layer2[0].conv1.weight[:8] = 0
        net.trunk.layer2[0].bn1.bias[:8] = 2
    bundle = save_network(tmp_path / "b", net, Preprocessing(input_size=64), name="b", card="b")
    carrying = bundle.with_int8(quantise(bundle, random_crops(32)))
    exact, found = (
        Embedder(carrying, engine=engine, device="cpu").embed(random_crops(8, seed=1))
        for engine in ("onnxruntime", "onnxruntime-int8")
    )
    assert (exact * found).sum(axis=1).min() > 0.995


def test_an_int8_graph_leaves_and_keeps_the_model_id(tmp_path: Path) -> None:
    plain = small_bundle(tmp_path / "b")
    carrying = plain.with_int8(quantise(plain, random_crops(16)))
    assert carrying.int8_file is not None
    assert carrying.model_id == plain.model_id
    left = carrying.without_int8()
    assert left.int8_file is None
    assert left.files == plain.files
