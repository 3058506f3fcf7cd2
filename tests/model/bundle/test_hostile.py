"""Bundles and graphs someone made to do harm: their digests fit, their contents do not."""

from __future__ import annotations

import contextlib
import copy
import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from model.bundle import Bundle
from model.bundle.files import _digest, sha256
from model.bundle.import_export import import_onnx
from model.bundle.prove import prove_apart
from model.embedding.graph_check import check_graph
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError, FaceError
from tests.model.helpers import small_bundle


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_bundle(tmp_path_factory.mktemp("bundle") / "small").path


@pytest.fixture
def bundle(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "copy"))


def forge(folder: Path, change: Callable[[Any], Any]) -> None:
    """Change the manifest and give it the digest it then has."""
    file = folder / "bundle.json"
    manifest = json.loads(file.read_text())
    manifest.pop("digest")
    manifest = change(manifest) or manifest
    if isinstance(manifest, dict):
        manifest["digest"] = _digest(manifest)
    file.write_text(json.dumps(manifest))


def test_files_that_are_not_listed_are_not_read(bundle: Path) -> None:
    (bundle / "calibration.json").write_text("{}")
    assert Bundle.load(bundle).calibration is None
    forge(bundle, lambda manifest: manifest["files"].pop("README.md") and None)
    with pytest.raises(BundleError):
        Bundle.load(bundle)


def test_links_are_not_followed(bundle: Path, tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    (bundle / "README.md").unlink()
    (bundle / "README.md").symlink_to(secret)
    digest = sha256(b"secret")
    forge(bundle, lambda manifest: manifest["files"].update({"README.md": digest}))
    with pytest.raises(BundleError):
        Bundle.load(bundle)


def test_a_card_exchanged_for_a_link_later_is_not_shown(bundle: Path, tmp_path: Path) -> None:
    loaded = Bundle.load(bundle)
    (tmp_path / "secret").write_text("secret")
    (bundle / "README.md").unlink()
    (bundle / "README.md").symlink_to(tmp_path / "secret")
    assert "secret" not in loaded.card


def test_a_pipe_does_not_hang(bundle: Path) -> None:
    (bundle / "README.md").unlink()
    os.mkfifo(bundle / "README.md")
    with pytest.raises(BundleError):
        Bundle.load(bundle)


@pytest.mark.parametrize("name", ["../secret", "/etc/hostname", "a/b", "", ".", "..", "x" * 200])
def test_only_names_within_the_folder_are_listed(bundle: Path, name: str) -> None:
    forge(bundle, lambda manifest: manifest["files"].update({name: "0" * 64}))
    with pytest.raises(BundleError, match="files"):
        Bundle.load(bundle)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)


@settings(
    max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.data())
def test_a_malformed_manifest_is_a_named_error(bundle: Path, data: st.DataObject) -> None:
    file = bundle / "bundle.json"
    before = file.read_text()
    manifest = json.loads(before)
    where = data.draw(st.sampled_from(sorted(manifest)))
    changed = copy.deepcopy(manifest)
    changed[where] = data.draw(junk)
    try:
        forge(bundle, lambda _: changed)
        Bundle.load(bundle)
    except FaceError:
        pass
    finally:
        file.write_text(before)


@pytest.mark.parametrize("text", [
        "", "[]", "null", "1", '"x"', "[" * 100_000, "{", "\ud800",
        '{"format": Infinity}', '{"format": 1, "name": "\\ud800"}',
    ],
)  # fmt: skip
def test_a_manifest_that_is_none_is_a_named_error(bundle: Path, text: str) -> None:
    (bundle / "bundle.json").write_bytes(text.encode(errors="surrogatepass"))
    with pytest.raises(BundleError):
        Bundle.load(bundle)


@pytest.mark.parametrize("part", ["preprocessing", "architecture"])
@pytest.mark.parametrize("fields", [{"": 1}, {"input_size": "64", "dim": "32"}, {"mean": ...}])
def test_parts_of_a_manifest_with_other_fields_are_a_named_error(
    bundle: Path, part: str, fields: dict[str, Any]
) -> None:
    def change(manifest: dict[str, Any]) -> None:
        known = {**manifest[part], **fields}
        manifest[part] = {name: value for name, value in known.items() if value is not ...}
        manifest["model_id"] = "0" * 64

    forge(bundle, change)
    with pytest.raises(BundleError):
        Bundle.load(bundle)


def graph(*nodes: onnx.NodeProto, weights: TensorProto | None = None) -> onnx.ModelProto:
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 64, 64])
    vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, [1, 3])
    made = helper.make_graph(list(nodes), "g", [image], [vector], [weights] if weights else [])
    domains = {node.domain for node in nodes} | {""}
    opsets = [helper.make_opsetid(domain, 17) for domain in domains]
    return helper.make_model(made, opset_imports=opsets, ir_version=8)


def mean(name: str = "vector") -> onnx.NodeProto:
    return helper.make_node("ReduceMean", ["image"], [name], axes=[2, 3], keepdims=0)


def endless() -> onnx.NodeProto:
    true = helper.make_tensor_value_info("c", TensorProto.BOOL, [])
    count = helper.make_tensor_value_info("n", TensorProto.INT64, [])
    out = helper.make_tensor_value_info("d", TensorProto.BOOL, [])
    body = helper.make_graph(
        [helper.make_node("Identity", ["c"], ["d"])], "body", [count, true], [out]
    )
    return helper.make_node("Loop", ["", ""], ["x"], body=body)


def external() -> TensorProto:
    weights = numpy_helper.from_array(np.ones(3, np.float32), "w")
    weights.ClearField("raw_data")
    weights.data_location = TensorProto.EXTERNAL
    entry = weights.external_data.add()
    entry.key, entry.value = "location", "secret"
    return weights


HOSTILE = {
    "loop": graph(mean(), endless()),
    "maker": graph(helper.make_node("Read", ["image"], ["vector"], domain="evil")),
    "external": graph(mean("m"), helper.make_node("Mul", ["m", "w"], ["vector"]),
                      weights=external()),
    "constant": graph(mean("m"), helper.make_node("Constant", [], ["w"], value=external()),
                      helper.make_node("Mul", ["m", "w"], ["vector"])),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_graph_is_refused_at_once(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret").write_bytes(bytes(12))
    monkeypatch.chdir(tmp_path)
    data = HOSTILE[name].SerializeToString()
    with pytest.raises(BundleError):  # before ONNX Runtime sees it
        check_graph(data)
    file = tmp_path / "model.onnx"
    file.write_bytes(data)
    started = time.process_time()
    with pytest.raises(BundleError):
        import_onnx(file, tmp_path / "out", Preprocessing(input_size=64), name="evil")
    assert time.process_time() - started < 5
    assert not (tmp_path / "out").exists()


def test_weights_may_lie_in_the_file_that_is_listed_alone() -> None:
    proto = HOSTILE["external"].SerializeToString()
    check_graph(proto, beside=["secret"])
    with pytest.raises(BundleError):
        check_graph(proto, beside=["weights.safetensors"])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_damaged_graph_is_a_named_error(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(HOSTILE)))
    changed = bytearray(HOSTILE[name].SerializeToString())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(changed) - 1))
        changed[place : place + data.draw(st.integers(0, 2))] = data.draw(st.binary(max_size=3))
    with contextlib.suppress(BundleError):
        check_graph(bytes(changed))


def test_a_field_given_twice_hides_nothing() -> None:
    plain = graph(mean()).SerializeToString()
    check_graph(plain)
    with pytest.raises(BundleError):  # protobuf merges both into one graph
        check_graph(HOSTILE["loop"].SerializeToString() + plain)


def test_a_model_that_does_not_end_is_ended(original: Path) -> None:
    with pytest.raises(BundleError, match="within"):
        prove_apart(original, seconds=0.01)


def test_a_model_that_works_is_proven_apart(original: Path) -> None:
    prove_apart(original)
