"""A cheap row of the results, run again."""

from __future__ import annotations

import csv
import os
from pathlib import Path

import pytest

from tests.paths import ROOT
from training.__main__ import main

DATA = os.environ.get("LFW_DATA", "")


@pytest.mark.slow
@pytest.mark.skipif(not DATA, reason="LFW_DATA names no folder with lfw_home in it")
def test_a_row_of_the_results_comes_out_again(tmp_path: Path) -> None:
    with (ROOT / "training/results/lfw40-faces/runs.csv").open() as file:
        told = next(
            row for row in csv.DictReader(file) if (row["name"], row["seed"]) == ("pd", "0")
        )
    command = [
        "compare", "--dataset", "lfw40", "--data", DATA, "--split", "paper", "--frozen",
        "--init", str(ROOT / "model/bundles/default"), "--feature-precision", "bf16",
        "--reduce", "128", "--dim", "128", "--preset", "frozen", "--epochs", "100",
        "--batch", "128", "--seeds", "1", "--losses", "pd", "--out", str(tmp_path / "out"),
        "--cache", os.environ.get("LFW_CACHE", str(tmp_path / "cache")),
    ]  # fmt: skip
    assert main(command) == 0
    with (tmp_path / "out/runs.csv").open() as file:
        (found,) = csv.DictReader(file)
    assert float(found["R@1"]) == pytest.approx(float(told["R@1"]), abs=0.003)
    assert float(found["d_prime"]) == pytest.approx(float(told["d_prime"]), rel=0.05)
