from __future__ import annotations

import importlib
import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from index.engines.faiss import index as faiss_index
from index.engines.faiss import install as faiss_install
from index.engines.faiss.index import FaissIndex
from index.engines.faiss.install import check_builds, free_gpu_memory, installed_builds, plan_gpu
from model.errors import IndexUnavailable
from tests.index.helpers import DIMENSION, Faces

GB = 1 << 30


def test_builds_are_found_by_their_names() -> None:
    assert installed_builds(["numpy", "faiss_cpu", "FAISS-GPU-cu12", "faissx"]) == [
        "faiss-cpu",
        "faiss-gpu-cu12",
    ]
    assert len(installed_builds()) == 1


def test_two_builds_in_one_environment_are_refused_with_the_remedy() -> None:
    check_builds(["faiss-cpu"])
    check_builds([])
    with pytest.raises(
        IndexUnavailable, match=r"pip uninstall -y faiss-cpu faiss-gpu &&.*faiss-gpu"
    ):
        check_builds(["faiss-cpu", "faiss-gpu"])


def test_a_second_build_on_disk_stops_the_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The metadata pip leaves behind, found the way Python finds it."""
    other = "faiss-cpu" if "faiss-gpu" in installed_builds() else "faiss-gpu"
    info = tmp_path / f"{other.replace('-', '_')}-1.15.1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {other}\nVersion: 1.15.1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    importlib.invalidate_caches()
    faiss_install.load_faiss.cache_clear()
    try:
        with pytest.raises(IndexUnavailable, match="break each other"):
            FaissIndex(DIMENSION)
    finally:
        faiss_install.load_faiss.cache_clear()


def test_missing_faiss_is_a_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    faiss_install.load_faiss.cache_clear()
    try:
        with pytest.raises(IndexUnavailable, match="pip install faiss-cpu"):
            FaissIndex(DIMENSION)
    finally:
        faiss_install.load_faiss.cache_clear()


@pytest.mark.parametrize(
    ("count", "free", "kind"),
    [
        # 512 numbers of 2 bytes, a quarter more for buffers: 1M takes 1.28 GB of 80%.
        (1_000_000, [2 * GB], "gpu-flat"),
        (2_000_000, [2 * GB], "gpu-ivf"),
        (3_000_000, [2 * GB], None),
        (2_000_000, [2 * GB, 2 * GB], "gpu-flat"),
        # The smallest of several decides, as the vectors are shared out evenly.
        (2_000_000, [80 * GB, GB // 2], None),
        (1, [], None),
    ],
)
def test_plan_respects_the_memory_there_is(count: int, free: list[int], kind: str | None) -> None:
    assert plan_gpu(count, 512, free, 0.8) == kind


def test_budget_is_checked() -> None:
    with pytest.raises(ValueError, match="budget"):
        plan_gpu(1, 512, [GB], 0)


def test_free_memory_without_a_driver_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert free_gpu_memory() == []


@pytest.mark.parametrize("reason", ["no room", "gpu fails"])
def test_index_falls_back_to_the_cpu_with_one_line(
    reason: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A machine whose GPU cannot hold or build the index still answers, exactly as before."""
    free = [1] if reason == "no room" else [GB]
    monkeypatch.setattr(faiss_index, "gpu_count", lambda: 1)
    monkeypatch.setattr(faiss_index, "free_gpu_memory", lambda: free)
    vectors = Faces(people=200).centres
    index = FaissIndex(DIMENSION, exact_limit=100, background=False)

    def fail(_: object) -> None:
        raise RuntimeError("CUDA error 2 out of memory\nstack")

    monkeypatch.setattr("index.engines.faiss.blocks._to_gpus", fail)
    with caplog.at_level(logging.WARNING):
        index.add(np.arange(200), vectors, [])
    (record,) = [r for r in caplog.records if "CPU" in r.message]
    assert ("fit" if reason == "no room" else "out of memory") in record.message
    assert index.stats().kind == "rabitq"
    assert index.search(vectors[7:8], 1)[1][0, 0] == 7


def test_loading_logs_nothing_that_looks_like_an_error() -> None:
    code = (
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "from index.engines.faiss.install import load_faiss; load_faiss()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == ""
