"""The results say what their runs gave, and a cheap row of them comes out again."""

from __future__ import annotations

import csv
import os
import re
from pathlib import Path

import numpy as np
import pytest

from tests.paths import ROOT
from training.__main__ import main

RESULTS = ROOT / "training/results"
TABLES = (
    (3, ("cub", "cars", "lfw40", "lfw40-long")),
    (5, ("cub-mobilenet", "cars-mobilenet", "lfw40-mobilenet")),
)
"""Paragraphs of the main comparison that are tables, and the runs of their columns."""
DATA, TRUNK = os.environ.get("LFW_DATA", ""), os.environ.get("RESNET50", "")


def runs(folder: str, loss: str) -> list[dict[str, str]]:
    with (RESULTS / folder / "runs.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["name"] == loss]


@pytest.mark.parametrize(("paragraph", "columns"), TABLES)
def test_the_main_tables_have_the_means_of_their_runs(
    paragraph: int, columns: tuple[str, ...]
) -> None:
    text = (RESULTS / "README.md").read_text()
    table = text[text.index("## Main comparison") :].split("\n\n")[paragraph]
    losses = 0
    for line in table.splitlines()[3:]:
        name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        losses += 1
        for folder, cell in zip(columns, cells, strict=True):
            made = runs(folder, name)
            assert len(made) == 3
            recall, d_prime = re.fullmatch(r"([\d.]+).*\(([\d.]+)\)", cell).groups()
            assert float(recall) == pytest.approx(
                np.mean([float(r["R@1"]) for r in made]), abs=6e-4
            )
            means = np.mean([float(r["d_prime"]) for r in made])
            assert float(d_prime) == pytest.approx(means, abs=6e-3)
    assert losses == 9


def test_links_lead_to_tables_and_no_table_is_left_over() -> None:
    linked = set(re.findall(r"\]\(([\w-]+)/table\.md\)", (RESULTS / "README.md").read_text()))
    assert linked == {path.parent.name for path in RESULTS.glob("*/table.md")}


@pytest.mark.slow
@pytest.mark.skipif(
    not (DATA and TRUNK), reason="LFW_DATA and RESNET50 name no data and no converted weights"
)
def test_a_row_of_the_main_table_comes_out_again(tmp_path: Path) -> None:
    told = runs("lfw40", "pd")[0]
    command = [
        "compare", "--dataset", "lfw40", "--data", DATA, "--split", "paper", "--frozen",
        "--trunk", "resnet50", "--init", TRUNK, "--feature-precision", "bf16", "--size", "224",
        "--reduce", "128", "--dim", "128", "--preset", "frozen", "--epochs", "100",
        "--batch", "128", "--lr", told["lr"], "--proxy-lr", "1", "--loss-option", "epsilon=1e-6",
        "--seeds", "1", "--losses", "pd", "--out", str(tmp_path / "out"),
        "--cache", os.environ.get("LFW_CACHE", str(tmp_path / "cache")),
    ]  # fmt: skip
    assert main(command) == 0
    with (tmp_path / "out/runs.csv").open() as file:
        (found,) = csv.DictReader(file)
    assert float(found["R@1"]) == pytest.approx(float(told["R@1"]), abs=0.01)
    assert float(found["d_prime"]) == pytest.approx(float(told["d_prime"]), rel=0.02)
