"""A mistake on the command line is one sentence and exit code 2, never a traceback."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from training import compare, fit
from training.__main__ import main
from training.datasets.table import Table
from training.splits import split
from training.task import Task

TINY = ["--epochs", "1", "--batch", "8", "--dim", "4"]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight classes of four, whatever dataset is asked for."""
    labels = np.repeat(np.arange(8), 4)
    paths = tuple(Path(str(row)) for row in range(32))
    table = Table("toy", paths, labels, tuple(map(str, range(8))))
    features = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
    images = np.zeros((32, 32, 32, 3), np.uint8)
    whole = Task(table, split(table, "zero_shot"), images, features, "toy", "", 32, "avg")
    for module in (fit, compare):
        monkeypatch.setattr(module, "make_task", lambda args: whole)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--epochs", "0"], "epochs 0"),
        (["fit", *TINY, "--loss-weight", "-1"], "loss weight is -1"),
        (["fit", *TINY, "--loss-weight", "0"], "nothing to train with"),
        (["fit", *TINY, "--loss-option", "temprature=2"], "did you mean 'temperature'"),
        (["fit", *TINY, "--loss-option", "temperature=-1"], "must be positive"),
        (["fit", *TINY, "--loss-option", "temperature=warm"], "'temperature': 'warm'"),
        (["fit", *TINY, "--loss-option", "one_sided=true"], "form='direct'"),
        (["compare", *TINY, "--losses", "pd,circel"], "no loss 'circel'"),
        (["reproduce", "--size", "8", "batch_size"], "at least 32 pixels"),
        (["reproduce", "batch_sizes"], "no experiment 'batch_sizes'"),
    ],
)
def test_settings_that_cannot_be_used(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "--out", str(tmp_path)]) == 2
    error = capsys.readouterr().err.strip()
    assert said in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(
    "words", [["--dim", "0"], ["--seeds", "-1"], ["--tune", "fast"], ["--size", "big"]]
)
def test_words_that_are_no_such_number(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["compare", "--dataset", "cub", *words, "--out", str(tmp_path)])
    assert stop.value.code == 2


def test_resuming_with_another_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", *TINY, "--out", str(tmp_path)]
    assert main(words) == 0
    assert main([*words, "--lr", "1", "--resume"]) == 2
    assert "another lr" in capsys.readouterr().err


def test_variants_are_judged_on_the_part_that_was_asked_for(tmp_path: Path) -> None:
    words = ["compare", *TINY, "--losses", "pd,pd_nolog", "--loss-option", "epsilon=1e-3"]
    assert main([*words, "--seeds", "1", "--part", "val", "--out", str(tmp_path)]) == 0
    assert "; epsilon=1e-3; val, n = 4;" in (tmp_path / "table.md").read_text()
    assert "| untrained |" in (tmp_path / "table.md").read_text()
    assert '"epsilon": 0.001' in (tmp_path / "pd-0" / "results.json").read_text()
