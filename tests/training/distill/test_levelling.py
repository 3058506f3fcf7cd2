"""Levelling: directions of groups, and bundles without them."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from model.bundle import Bundle, save_graph, save_network
from model.embedding import onnx_graph
from model.embedding.embedder import Embedder
from model.embedding.preprocess import Preprocessing
from tests.model.helpers import lively_network, random_crops, small_bundle
from training.__main__ import main
from training.datasets.face_set import held_out
from training.distill.levelling import (
    TARGET,
    group_directions,
    middle_threshold,
    project,
    projection,
)


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def some_projection(dim: int) -> np.ndarray:
    basis = np.linalg.qr(np.random.default_rng(1).normal(size=(dim, 3)))[0]
    return projection(basis.T)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 99), groups=st.integers(2, 6), data=st.data())
def test_projection_takes_out_what_the_means_share_and_nothing_else(
    seed: int, groups: int, data: st.DataObject
) -> None:
    count = data.draw(st.integers(1, groups))
    rng = np.random.default_rng(seed)
    vectors = unit(rng.normal(size=(20 * groups, 12)))
    labels = np.repeat(np.arange(groups), 20)
    directions = group_directions(vectors, labels, count)
    matrix = projection(directions)
    np.testing.assert_allclose(matrix @ matrix, matrix, atol=1e-9)
    np.testing.assert_allclose(matrix @ directions.T, 0, atol=1e-9)
    assert np.linalg.matrix_rank(matrix) == 12 - count
    means = np.stack([vectors[labels == group].mean(0) for group in range(groups)])
    # Eckart and Young: what is left is the sum of the smaller eigenvalues of the means' products.
    left = np.linalg.eigvalsh(means @ means.T)[: groups - count].clip(0).sum()
    assert ((means @ matrix) ** 2).sum() == pytest.approx(left, abs=1e-9)


def test_strangers_of_a_group_that_shares_a_direction_come_apart() -> None:
    rng = np.random.default_rng(0)
    shared = np.eye(32)[0]
    old, young = rng.normal(size=(200, 32)), rng.normal(size=(200, 32)) + 8 * shared
    vectors = unit(np.concatenate([old, young]))
    groups = np.repeat(["old", "young"], 200)
    levelled = unit(vectors @ projection(group_directions(vectors, groups, 1)))
    for part, alike in ((vectors, 0.6), (levelled, 0.0)):
        scores = part[200:] @ part[200:].T
        assert scores[np.triu_indices(200, 1)].mean() == pytest.approx(alike, abs=0.1)


@pytest.mark.parametrize(("shifts", "middle"), [((0, 2, 5), 1), ((0, 5), 1), ((5, 2, 0, 1), 1)])
def test_middle_threshold_is_that_of_the_middle_group(shifts: tuple[int, ...], middle: int) -> None:
    rng = np.random.default_rng(0)
    parts = [unit(rng.normal(size=(60, 8)) + shift * np.eye(8)[0]) for shift in shifts]
    threshold = middle_threshold(np.concatenate(parts), np.repeat(range(len(parts)), 60))
    shares = [np.mean((part @ part.T)[np.triu_indices(60, 1)] >= threshold) for part in parts]
    assert shares[middle] == pytest.approx(TARGET, abs=1 / 1770)
    assert sum(share > shares[middle] for share in shares) == (len(parts) - 1) // 2


@pytest.mark.parametrize("head_norm", [True, False])
def test_a_network_is_multiplied_before_its_unit_length(tmp_path: Path, head_norm: bool) -> None:
    net = lively_network(dim=16, head_norm=head_norm)
    torch.nn.init.uniform_(net.head[-1].bias, -1, 1)
    source = save_network(
        tmp_path / "source", net, Preprocessing(input_size=32), name="net", card=""
    )
    matrix = some_projection(16)
    result = project(source, matrix, tmp_path / "result", {"directions": 3})
    expected = unit(Embedder(source, engine="torch").embed(random_crops(4)) @ matrix.T)
    found = Embedder(result, engine="torch").embed(random_crops(4))
    np.testing.assert_allclose(found, expected, atol=2e-3)  # fp16 weights
    assert result.architecture == source.architecture
    assert "without 3 directions" in result.card


@pytest.mark.parametrize("version", [3, None])
def test_a_graph_is_multiplied_too(tmp_path: Path, version: int | None) -> None:
    """Version 3 wants weights among the inputs, from where mending takes them."""
    proto = onnx.load_from_string(onnx_graph.export(lively_network(dim=16), 32))
    if version:
        proto.ir_version = version
        for tensor in proto.graph.initializer:
            kind = onnx.helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            proto.graph.input.append(kind)
    graph = onnx_graph.mend(proto.SerializeToString())
    source = save_graph(
        tmp_path / "source", graph, Preprocessing(input_size=32, flip=True), name="g", card=""
    )
    matrix = some_projection(16)
    result = project(source, matrix, tmp_path / "result", {"directions": 3})
    expected = unit(Embedder(source).embed(random_crops(4)) @ matrix.T)
    np.testing.assert_allclose(Embedder(result).embed(random_crops(4)), expected, atol=1e-3)


@pytest.fixture(scope="module")
def groups(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two groups of eighty dark and eighty bright noise pictures, and a third of five."""
    root = tmp_path_factory.mktemp("level") / "groups"
    rng = np.random.default_rng(0)
    for name, count, low in (("bright", 80, 128), ("dark", 80, 0), ("few", 5, 64)):
        (root / name).mkdir(parents=True)
        for photo in range(count):
            pixels = rng.integers(low, low + 128, (112, 112, 3), np.uint8)
            Image.fromarray(pixels).save(root / name / f"{photo}.png")
    return root


def command(groups: Path, out: Path, *more: str) -> list[str]:
    source = out.parent / "source"
    if not source.exists():
        small_bundle(source)
    return ["level", "--bundle", str(source), "--faces", str(groups), "--out", str(out),
            "--cache", str(groups.parent / "cache"), *more]  # fmt: skip


def test_command_writes_the_model_it_judged_on_the_other_half(
    groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(groups, tmp_path / "out", "--directions", "1")) == 0
    text = capsys.readouterr().out
    assert "fewer than 30 faces in a half: few" in text
    levelled = Bundle.load(tmp_path / "out")
    assert levelled.model_id[:12] in text
    assert levelled.provenance["levelled"]["groups"] == ["bright", "dark"]
    paths = sorted(path for path in groups.rglob("*.png") if path.parent.name != "few")
    names = np.array([path.parent.name for path in paths])
    learning = np.array([held_out(f"groups/{path.relative_to(groups)}", 0.5) for path in paths])
    crops = np.stack([np.array(Image.open(path)) for path in paths])
    before, after = (
        Embedder(bundle).embed(crops) for bundle in (Bundle.load(tmp_path / "source"), levelled)
    )
    means = np.stack([before[learning & (names == name)].mean(0) for name in ("bright", "dark")])
    shared = np.linalg.svd(means)[2][0]
    assert np.abs(before @ shared).mean() > 0.5
    assert np.abs(after @ shared).max() < 1e-2  # fp16 weights
    threshold = middle_threshold(before[learning], names[learning])
    for name in ("bright", "dark"):
        judged = before[~learning & (names == name)]
        rate = np.mean((judged @ judged.T)[np.triu_indices(len(judged), 1)] >= threshold)
        assert re.search(rf"^{name} +{len(judged)}  {rate:.1e} \[", text, re.MULTILINE), text


def test_a_folder_given_from_inside_is_called_what_it_is_called(
    groups: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(command(groups, tmp_path / "outside", "--directions", "1")) == 0
    monkeypatch.chdir(groups)
    assert main(command(Path(), tmp_path / "inside", "--directions", "1", "--cache",
                        str(groups.parent / "cache"))) == 0  # fmt: skip
    outside, inside = (Bundle.load(tmp_path / name) for name in ("outside", "inside"))
    assert inside.model_id == outside.model_id
    assert inside.provenance["levelled"]["folders"] == ["groups"]


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (("--directions", "3"), "there are 2 such groups and vectors of 32"),
        (("--faces",), "Give --faces or --photos"),
        (("--photos", "{groups}"), "given twice"),
        (("--faces", "{groups}/dark"), "is not in the folder of a group"),
        (("--out", "{source}"), "--out is the same as --bundle"),
    ],
)
def test_what_cannot_be_levelled_is_refused(
    groups: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    more: tuple[str, ...], sentence: str,
) -> None:  # fmt: skip
    given = [word.format(groups=groups, source=tmp_path / "source") for word in more]
    assert main(command(groups, tmp_path / "out", *given)) == 2
    assert sentence in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
    assert Bundle.load(tmp_path / "source").name == "small"
