from __future__ import annotations

import io
import json
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from facenet_pytorch import InceptionResnetV1
from onnx import TensorProto, helper
from torch import nn

from model.__main__ import main
from model.bundle import Bundle
from model.bundle.import_export import import_onnx, wrap_facenet
from model.embedding.embedder import Embedder
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError, EngineUnavailable
from model.onnx_runtime import onnxruntime
from tests.model.helpers import random_crops, small_bundle


class Foreign(nn.Module):
    """Another maker's embedder: raw BGR pixels in, vectors of any length out."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 7, stride=4)
        self.linear = nn.Linear(8, 16)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.linear(torch.relu(self.conv(images)).mean((2, 3)))


def old_style_graph(net: nn.Module) -> bytes:
    """Batch fixed to one and every weight listed as an input, as old exporters did."""
    buffer = io.BytesIO()
    torch.onnx.export(
        net, (torch.zeros(1, 3, 112, 112),), buffer, dynamo=False, keep_initializers_as_inputs=True
    )
    return buffer.getvalue()


def graph_of(operator: str, shape: list[int], **attributes: object) -> bytes:
    """One operator from a 112x112 image to an output of the given shape."""
    node = helper.make_node(operator, ["image"], ["vector"], **attributes)
    image = helper.make_tensor_value_info("image", TensorProto.FLOAT, [1, 3, 112, 112])
    vector = helper.make_tensor_value_info("vector", TensorProto.FLOAT, shape)
    operators = [helper.make_opsetid("", 12), helper.make_opsetid("elsewhere", 1)]
    return helper.make_model(
        helper.make_graph([node], "graph", [image], [vector]), opset_imports=operators, ir_version=8
    ).SerializeToString()


@pytest.fixture
def foreign_file(tmp_path: Path) -> Path:
    torch.manual_seed(1)
    file = tmp_path / "foreign.onnx"
    file.write_bytes(old_style_graph(Foreign().eval()))
    return file


def test_import_wraps_a_foreign_graph_and_frees_its_batch(
    foreign_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert len(onnx.load(foreign_file).graph.input) > 1
    out = tmp_path / "bundle"
    arguments = ["--mean", "0", "0", "0", "--std", "1", "1", "1", "--channels", "BGR"]
    assert main(["import", str(foreign_file), "--out", str(out), *arguments]) == 0
    bundle = Bundle.load(out)
    crops = random_crops(5)
    session = onnxruntime.InferenceSession(str(foreign_file))
    name = session.get_inputs()[0].name
    expected = []
    for crop in crops:
        pixels = crop[:, :, ::-1].transpose(2, 0, 1)[None].astype(np.float32)
        (vector,) = session.run(None, {name: pixels})[0]
        expected.append(vector / np.linalg.norm(vector))
    np.testing.assert_allclose(Embedder(bundle).embed(crops), expected, atol=1e-5)
    with pytest.raises(EngineUnavailable, match="ONNX graph"):
        Embedder(bundle, engine="torch")


def test_import_says_what_is_wrong(foreign_file: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="112x112"):
        import_onnx(foreign_file, tmp_path / "b", Preprocessing(input_size=160), name="x")
    (tmp_path / "text.onnx").write_text("not a graph")
    with pytest.raises(BundleError, match="not a usable ONNX"):
        import_onnx(tmp_path / "text.onnx", tmp_path / "b", Preprocessing(), name="x")
    with pytest.raises(BundleError, match="no file"):
        import_onnx(tmp_path / "gone.onnx", tmp_path / "b", Preprocessing(), name="x")
    assert not (tmp_path / "b").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["x.onnx", "--input-size", "16"], "at least 32 pixels"),
        (["x.onnx", "--std", "1", "0", "1"], "every value must be positive"),
        (["facenet-vggface3"], "no weights 'vggface3'; it has vggface2 and casia-webface"),
    ],
)
def test_import_with_words_that_cannot_be_meant(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", *words, "--out", str(tmp_path / "b")]) == 3
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("graph", "complaint"),
    [
        (graph_of("Unheard", [1, 16], domain="elsewhere"), "Unheard, which is not a standard"),
        (graph_of("Squeeze", [3, 112, 112], axes=[0]), r"bad\.onnx does not run"),
        (graph_of("ReduceMean", [], keepdims=0), "vector of the ONNX graph has no dimensions"),
        (graph_of("ReduceMean", [1, 3, 1, 1], axes=[2, 3]), r"\(3, 3, 1, 1\), not one finite"),
        (graph_of("Flatten", [1, 37632], axis=0), r"\(1, 112896\), not one finite vector per crop"),
    ],
    ids=["unknown operator", "fails when run", "scalar", "four axes", "one for all"],
)
def test_a_graph_that_is_no_embedder_leaves_the_bundle_it_would_replace(
    tmp_path: Path, graph: bytes, complaint: str
) -> None:
    file = tmp_path / "bad.onnx"
    file.write_bytes(graph)
    good = small_bundle(tmp_path / "models" / "good")
    with pytest.raises(BundleError, match=complaint):
        import_onnx(file, good.path, Preprocessing(), name="bad")
    assert Bundle.load(good.path) == good
    assert [entry.name for entry in good.path.parent.iterdir()] == ["good"]


def test_facenet_weights_that_give_no_vectors_leave_the_bundle(tmp_path: Path) -> None:
    good = small_bundle(tmp_path / "good")
    broken = InceptionResnetV1(pretrained=None).state_dict()
    broken["last_linear.weight"].fill_(torch.nan)
    with pytest.raises(BundleError, match="not one finite vector"):
        wrap_facenet(broken, good.path, "broken")
    assert Bundle.load(good.path) == good


def test_export_writes_a_graph_that_stands_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = small_bundle(tmp_path / "b")
    out = tmp_path / "out.onnx"
    assert main(["export", str(bundle.path), "--onnx", str(out)]) == 0
    crops = random_crops(3)
    images = bundle.preprocessing(crops)
    vectors = onnxruntime.InferenceSession(str(out)).run(["embedding"], {"image": images})[0]
    np.testing.assert_allclose(vectors, Embedder(bundle, engine="torch").embed(crops), atol=1e-5)


def test_facenet_adapter_gives_what_facenet_gives(tmp_path: Path) -> None:
    torch.manual_seed(0)
    source = InceptionResnetV1(pretrained=None).eval()
    bundle = wrap_facenet(source.state_dict(), tmp_path / "b", "random")
    crops = random_crops(2)
    with torch.inference_mode():
        expected = source(torch.from_numpy(bundle.preprocessing(crops))).numpy()
    assert (Embedder(bundle).embed(crops) * expected).sum(1).min() > 0.999


def test_facenet_weights_out_of_reach_are_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    assert main(["import", "facenet-vggface2", "--out", str(tmp_path / "b")]) == 3
    assert "could not be downloaded" in capsys.readouterr().err


def test_info_prints_the_verified_manifest(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = small_bundle(tmp_path / "b")
    assert main(["info", str(bundle.path)]) == 0
    assert json.loads(capsys.readouterr().out)["model_id"] == bundle.model_id
    assert main(["info", str(tmp_path / "nothing")]) == 3
    assert "not a model bundle" in capsys.readouterr().err
