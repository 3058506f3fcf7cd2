from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from PIL import Image

from model import onnx_runtime
from model.bundle import Bundle
from model.bundle.import_export import import_onnx
from model.embedding import graph_cache, onnx_graph
from model.embedding.embedder import Embedder
from model.embedding.graph_cache import cache_dir
from model.embedding.preprocess import Preprocessing, resized
from model.embedding.tensors import resize
from model.errors import EngineUnavailable
from model.onnx_runtime import open_session
from tests.model.helpers import random_crops, small_bundle, without_graph
from tests.paths import ROOT

ENGINES = ("torch", "onnxruntime")


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small_bundle(tmp_path_factory.mktemp("bundle") / "small")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_crop_gives_the_same_vector_in_any_company(bundle: Bundle, engine: str) -> None:
    embedder = Embedder(bundle, engine=engine, batch_size=7)
    crops = random_crops(20)
    together = embedder.embed(crops)
    alone = np.stack([embedder.embed(crop[None])[0] for crop in crops])
    np.testing.assert_allclose(together, alone, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, atol=1e-5)


def test_the_graph_of_a_bundle_is_its_network(bundle: Bundle) -> None:
    """Not nearly: graph and file hold the same numbers, so that one model_id is right for both."""
    assert bundle.graph_file is not None
    assert bundle.graph_file.stat().st_size < 100_000
    images = bundle.preprocessing(random_crops(4))
    with torch.inference_mode():
        expected = bundle.network()(torch.from_numpy(images)).numpy()
    (vectors,) = open_session(bundle.graph_file).run(None, {"image": images})
    np.testing.assert_allclose(vectors, expected, atol=2e-6)


def test_a_graph_that_the_manifest_does_not_name_is_not_run(tmp_path: Path) -> None:
    bundle = without_graph(small_bundle(tmp_path / "b"))
    (bundle.path / "graph.onnx").write_bytes(b"put there by someone")
    assert Bundle.load(bundle.path).graph_file is None


@pytest.mark.parametrize("size", [64, 96, 111, 112, 160])
def test_resizing_without_torch_is_resizing_with_it(size: int) -> None:
    """Within a thousandth of a pixel value of what networks are trained with."""
    pixels = random_crops(2).transpose(0, 3, 1, 2).astype(np.float32)
    expected = resize(torch.from_numpy(pixels), size).numpy()
    np.testing.assert_allclose(resized(pixels, size), expected, atol=1e-3)


def test_input_without_torch_is_the_input_of_training() -> None:
    preprocessing = Preprocessing(input_size=96, channels="BGR")
    crops = random_crops(2)
    tensors = torch.from_numpy(crops).permute(0, 3, 1, 2).float()
    expected = preprocessing.normalise(resize(tensors, 96)).numpy()
    np.testing.assert_allclose(preprocessing(crops), expected, atol=1e-5)


@pytest.mark.parametrize("flip", [False, True])
def test_engines_agree(tmp_path: Path, flip: bool) -> None:
    bundle = small_bundle(tmp_path / "b", flip=flip)
    crops = random_crops(16)
    first, second = (Embedder(bundle, engine=engine).embed(crops) for engine in ENGINES)
    assert (first * second).sum(1).min() > 0.9999


def test_flip_averages_the_mirror_image(tmp_path: Path) -> None:
    plain = Embedder(small_bundle(tmp_path / "plain"))
    both = Embedder(small_bundle(tmp_path / "both", flip=True))
    crops = random_crops(3)
    sum_ = plain.embed(crops) + plain.embed(crops[:, :, ::-1])
    expected = sum_ / np.linalg.norm(sum_, axis=1, keepdims=True)
    np.testing.assert_allclose(both.embed(crops), expected, atol=1e-5)
    np.testing.assert_allclose(both.embed(crops), both.embed(crops[:, :, ::-1]), atol=1e-5)


def test_input_against_pillow_and_the_definition(bundle: Bundle) -> None:
    """Resize by Pillow, normalise by hand, run the network: the independent route."""
    crop = np.asarray(Image.effect_noise((112, 112), 60).convert("RGB"))
    small = np.asarray(Image.fromarray(crop).resize((64, 64), Image.Resampling.BILINEAR), float)
    prep = bundle.preprocessing
    pixels = (small - np.array(prep.mean)) / np.array(prep.std)
    with torch.inference_mode():
        vector = F.normalize(
            bundle.network()(torch.tensor(pixels, dtype=torch.float32).permute(2, 0, 1)[None])
        )
    assert float(vector @ Embedder(bundle).embed(crop[None])[0]) > 0.999


def test_calls_from_many_threads_do_not_mix(bundle: Bundle) -> None:
    embedder = Embedder(bundle)
    crops = random_crops(32)
    expected = embedder.embed(crops)
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda crop: embedder.embed(crop[None])[0], crops))
    np.testing.assert_allclose(results, expected, atol=1e-5)


def test_nothing_in_nothing_out(bundle: Bundle) -> None:
    assert Embedder(bundle).embed([]).shape == (0, 32)


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_a_named_device_is_never_replaced(bundle: Bundle) -> None:
    for engine in ENGINES:
        with pytest.raises(EngineUnavailable):
            Embedder(bundle, engine=engine, device="cuda")
    assert (Embedder(bundle).engine, Embedder(bundle).device) == ("onnxruntime", "cpu")


def test_unknown_names_are_answered_with_the_known_ones(bundle: Bundle) -> None:
    with pytest.raises(ValueError, match="auto, fp32, torch, onnxruntime"):
        Embedder(bundle, engine="tensorrt")
    with pytest.raises(ValueError, match="auto, cpu, cuda, mps"):
        Embedder(bundle, device="tpu")


def test_the_cached_graph_is_used_again_and_mended_when_damaged(tmp_path: Path) -> None:
    bundle = without_graph(small_bundle(tmp_path / "b", input_size=72))
    crops = random_crops(2)
    expected = Embedder(bundle).embed(crops)
    (file,) = cache_dir().glob(f"{bundle.model_id}*.onnx")
    made = file.stat().st_mtime_ns
    np.testing.assert_array_equal(Embedder(bundle).embed(crops), expected)
    assert file.stat().st_mtime_ns == made
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0xFF
    file.write_bytes(data)
    np.testing.assert_array_equal(Embedder(bundle).embed(crops), expected)


def test_a_graph_cached_by_an_older_exporter_is_not_used(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACE_CACHE", str(tmp_path))
    made = graph_cache.graph(bundle)
    monkeypatch.setattr(onnx_graph, "export", lambda net, input_size: b"a newer form")
    assert graph_cache.graph(bundle) == made
    monkeypatch.setattr(graph_cache, "EXPORT_VERSION", graph_cache.EXPORT_VERSION + 1)
    assert graph_cache.graph(bundle) == b"a newer form"


def test_the_cache_is_made_for_the_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACE_CACHE", str(tmp_path / "cache"))
    assert cache_dir().stat().st_mode & 0o777 == 0o700
    cache_dir().chmod(0o750)
    assert cache_dir().stat().st_mode & 0o777 == 0o750


def test_a_graph_that_cannot_be_kept_leaves_no_file_and_is_used(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bundle = without_graph(small_bundle(tmp_path / "b"))
    crops = random_crops(2)
    expected = Embedder(bundle, engine="onnxruntime").embed(crops)
    (tmp_path / "cache").mkdir()
    monkeypatch.setenv("FACE_CACHE", str(tmp_path / "cache"))

    def read_only(source: str, target: Path) -> None:
        raise OSError("read-only file system")

    monkeypatch.setattr(os, "replace", read_only)
    embedder = Embedder(bundle, engine="onnxruntime")
    np.testing.assert_array_equal(embedder.embed(crops), expected)
    assert not list((tmp_path / "cache").iterdir())
    assert "FACE_CACHE: read-only file system" in caplog.text


def test_a_user_without_a_home_can_embed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = without_graph(small_bundle(tmp_path / "b"))
    for name in ("FACE_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", homeless)
    assert len(Embedder(bundle, engine="onnxruntime").embed(random_crops(1))) == 1


def test_the_runtime_is_told_to_send_nothing_home(tmp_path: Path) -> None:
    """Loaded otherwise, it numbers this machine in a file and reports what it runs."""
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    program = "import model.embedding.embedder, sys; assert 'onnxruntime' in sys.modules"
    subprocess.run([sys.executable, "-c", program], cwd=ROOT, env=environment, check=True)
    assert not list(tmp_path.rglob("*"))


def test_a_device_that_does_not_start_is_not_replaced(
    bundle: Bundle, monkeypatch: pytest.MonkeyPatch
) -> None:
    """ONNX Runtime itself goes on with the processor when its CUDA libraries fail to load."""
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnx_runtime.onnxruntime, "get_available_providers", lambda: offered)
    graph = onnx_graph.export(bundle.network(), 64)
    unheard = pytest.warns(UserWarning, match="CUDAExecutionProvider")
    with unheard, pytest.raises(EngineUnavailable, match="could not start"):
        open_session(graph, device="cuda")


def test_the_best_device_is_the_processor_where_cuda_does_not_start(
    bundle: Bundle, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "graph.onnx").write_bytes(onnx_graph.export(bundle.network(), 64))
    foreign = import_onnx(
        tmp_path / "graph.onnx", tmp_path / "foreign", bundle.preprocessing, name="foreign"
    )
    offered = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnx_runtime.onnxruntime, "get_available_providers", lambda: offered)
    with pytest.warns(UserWarning, match="CUDAExecutionProvider"):
        assert Embedder(foreign).device == "cpu"
