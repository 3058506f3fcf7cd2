"""Who is in a benchmark as well."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.training.distill import stores
from training.__main__ import main
from training.distill.overlap import overlapping
from training.distill.store import prepare


def test_a_person_is_named_by_the_mean_of_their_faces() -> None:
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    found = overlapping(vectors, np.array(["a", "a", "b"]), np.array([[0.9, 0.44]]), 0.95)
    assert list(found) == ["a"]


def test_people_and_unknown_faces_of_the_benchmark_are_listed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = stores.store(tmp_path / "faces", ["hopper", "collins"], photos=1)
    photos = tmp_path / "faces-photos"
    graphs = [tmp_path / "a.onnx", tmp_path / "b.onnx"]
    prepare(photos / "collins", graphs, tmp_path / "benchmark")
    prepare(photos, graphs, tmp_path / "loose")
    command = [
        "overlap", "--faces", str(folder), str(tmp_path / "loose"), "--limit", "0.999",
        "--against", str(tmp_path / "benchmark"), "--out", str(tmp_path / "found.txt"),
    ]  # fmt: skip
    assert main(command) == 0
    assert (tmp_path / "found.txt").read_text() == "loose/collins/0.png\npeople/collins\n"
    assert "faces: 1 of 2 are in benchmark" in capsys.readouterr().out
