"""A mistake on the command line is one sentence and exit code 2, never a traceback."""

from __future__ import annotations

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from training.__main__ import COMMANDS, main
from training.commands import compare, fit, reproduce
from training.datasets.table import Table
from training.errors import UsageError
from training.learn import distributed
from training.learn.recipe import Recipe
from training.learn.task import Task
from training.splits import split

TINY = ["--epochs", "1", "--batch", "8", "--dim", "4"]
PUBLISH = ["--bundle", "x", "--lfw", "x", "--name", "x"]


@pytest.fixture(autouse=True)
def task(monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight classes of four, whatever dataset is asked for."""
    labels = np.repeat(np.arange(8), 4)
    paths = tuple(Path(str(row)) for row in range(32))
    table = Table("toy", paths, labels, tuple(map(str, range(8))))
    features = np.random.default_rng(0).normal(size=(32, 6)).astype(np.float32)
    images = np.zeros((32, 32, 32, 3), np.uint8)
    whole = Task(table, split(table, "zero_shot"), images, features, "toy", "", 32)
    for module in (fit, compare):
        monkeypatch.setattr(module, "make_task", lambda args: whole)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert f"python -m training {command}" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fit", "--epochs", "0"], "epochs 0"),
        (["fit", *TINY, "--loss-weight", "-1"], "loss weight is -1"),
        (["fit", *TINY, "--loss-weight", "0"], "nothing to train with"),
        (["compare", *TINY, "--loss-weight", "0"], "nothing to train with"),
        (["reproduce", "batch_size", "--loss-weight", "0"], "nothing to train with"),
        (["fit", *TINY, "--shard-proxies"], "start fit with torchrun"),
        (["fit", *TINY, "--lr", "-1"], "lr is -1.0; it must be 0 or more"),
        (["fit", *TINY, "--seed", "-1"], "seed is -1"),
        (["fit", *TINY, "--clip", "0"], "clip is 0.0"),
        (["fit", *TINY, "--ema", "1"], "ema is 1.0"),
        (["fit", *TINY, "--loss", "d", "--batch", "4"], "choose --batch 8 or more"),
        (["fit", *TINY, "--keep-faces", "x"], "--keep-faces needs --keep-run"),
        (["fit", *TINY, "--keep-run", "x"], "--keep-run needs --keep-faces"),
        (["fit", *TINY, "--keep-weight", "1"], "--keep-weight needs --keep-run"),
        (["evaluate", "--run", "x", "--dataset", "cub"], "leave out --dataset"),
        (["evaluate", "--run", "x", "--data", "y", "--split", "paper"], "out --data, --split"),
        (["calibrate", "--check", "x", "--data", "y", "--groups", "z"], "--groups is for"),
        (["fit", *TINY, "--loss-option", "temprature=2"], "did you mean 'temperature'"),
        (["fit", *TINY, "--loss-option", "temperature=-1"], "must be positive"),
        (["fit", *TINY, "--loss-option", "temperature=warm"], "'temperature': 'warm'"),
        (["compare", *TINY, "--losses", "pd,circel"], "no loss 'circel'"),
        (["compare", *TINY, "--choose", "99", "--losses", "d"], "there are only nine trials"),
        (["reproduce", "--size", "8", "batch_size"], "at least 32 pixels"),
        (["reproduce", "batch_sizes"], "no experiment 'batch_sizes'"),
        (
            ["fit", *TINY, "--frozen", "--keep-run", "x", "--keep-faces", "y"],
            "--keep-run needs pictures",
        ),
        (["publish", *PUBLISH, "--facts", "no.json"], "no file no.json"),
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
    "words",
    [
        ["compare", "--dim", "0"],
        ["compare", "--seeds", "-1"],
        ["compare", "--choose", "some"],
        ["compare", "--size", "big"],
        ["fit", "--patience", "-1"],
        ["fit", "--checkpoint-every", "-1"],
    ],
)
def test_words_that_are_no_such_number(words: list[str], tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as stop:
        main([*words, "--dataset", "cub", "--out", str(tmp_path)])
    assert stop.value.code == 2


def test_facts_that_are_no_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "facts.json").write_text("summary: fine")
    words = ["publish", *PUBLISH, "--facts", str(tmp_path / "facts.json")]
    assert main([*words, "--out", str(tmp_path / "out")]) == 2
    assert "is not JSON" in capsys.readouterr().err


def test_processes_on_processors_need_no_group_of_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[str] = []
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "set_device", lambda device: started.append(f"gpu {device}"))
    monkeypatch.setattr(torch.distributed, "init_process_group", started.append)
    distributed.start(gpu=False)
    assert started == ["gloo"]
    distributed.start()
    assert started == ["gloo", "gpu 0", "nccl"]


def test_resuming_with_another_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["fit", *TINY, "--out", str(tmp_path)]
    assert main(words) == 0
    assert main([*words, "--lr", "1", "--resume"]) == 2
    assert "another lr" in capsys.readouterr().err


def test_resuming_with_other_pictures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fit", *TINY, "--out", str(tmp_path)]
    assert main(words) == 0
    whole = fit.make_task(None)
    moved = replace(whole.table, paths=whole.table.paths[::-1])
    monkeypatch.setattr(fit, "make_task", lambda args: replace(whole, table=moved))
    assert main([*words, "--resume"]) == 2
    assert "another pictures" in capsys.readouterr().err


def test_resuming_another_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(fit, "keep_teacher", lambda *_: None)
    command = ["fit", *TINY, "--keep-run", "a", "--keep-faces", "b", "--out", str(tmp_path)]
    assert main(command) == 0
    config = (tmp_path / "config.json").read_text()
    for words, differs in (
        (["--loss", "pd_nolog"], "loss"),
        (["--loss-option", "temperature=0.5"], "options"),
        (["--dim", "5"], "dim"),
        (["--proxy-init", "class_mean"], "proxy_init"),
        (["--keep-run", "other"], "keep_run"),
        (["--keep-weight", "0.5"], "keep_weight"),
        (["--keep-faces", "others"], "keep_faces"),
        (["--keep-left-out", "others"], "keep_left_out"),
    ):
        assert main([*command, *words, "--resume"]) == 2
        assert f"another {differs}:" in capsys.readouterr().err
    assert (tmp_path / "config.json").read_text() == config
    assert main([*command, "--resume"]) == 0


def test_patience_that_comes_after_the_best_epoch_keeps_the_last(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["fit", *TINY, "--out", str(tmp_path)]
    (tmp_path / "best.pt").write_bytes(b"of an earlier run")
    assert main(command) == 0
    assert main([*command, "--resume", "--patience", "1"]) == 0
    assert "kept the last epoch" in capsys.readouterr().out


def test_seeds_are_counted_from_the_one_that_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = [*TINY, "--losses", "pd", "--seed", "5", "--seeds", "2"]
    assert main(["compare", *words, "--out", str(tmp_path / "compare")]) == 0
    monkeypatch.setattr(reproduce, "make_task", compare.make_task)
    words = ["batch_size", "--epochs", "1", "--seed", "5", "--seeds", "2"]
    assert main(["reproduce", *words, "--out", str(tmp_path)]) == 0
    folders = {
        "compare/pd-5": 5, "compare/pd-6": 6, "batch_size/BS 32/5": 5, "batch_size/BS 32/6": 6,
    }  # fmt: skip
    for folder, seed in folders.items():
        result = json.loads((tmp_path / folder / "results.json").read_text())
        assert result["recipe"]["seed"] == seed


def test_patience_needs_pairs_on_val(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = fit.make_task(None)
    one_class = replace(whole, split=replace(whole.split, val=whole.split.val[:4]))
    monkeypatch.setattr(fit, "make_task", lambda args: one_class)
    assert main(["fit", *TINY, "--patience", "2", "--out", str(tmp_path)]) == 2
    assert "no impostor pairs" in capsys.readouterr().err


def test_finished_run_that_is_older_than_a_field_of_the_recipe(tmp_path: Path) -> None:
    task, recipe = compare.make_task(None), Recipe(epochs=1, batch=8)
    result = compare.run_one(task, "pd", recipe, tmp_path, dim=4)
    del result["recipe"]["loss_weight"]
    (tmp_path / "results.json").write_text(json.dumps(result))
    again = compare.run_one(task, "pd", recipe, tmp_path, dim=4)
    assert again["metrics"] == result["metrics"]
    with pytest.raises(UsageError, match="other settings: loss_weight"):
        compare.run_one(task, "pd", replace(recipe, loss_weight=2.0), tmp_path, dim=4)


def test_finished_run_from_another_start(tmp_path: Path) -> None:
    task, recipe = compare.make_task(None), Recipe(epochs=1, batch=8)
    compare.run_one(task, "pd", recipe, tmp_path, dim=4)
    with pytest.raises(UsageError, match="other settings: init"):
        compare.run_one(replace(task, init="elsewhere"), "pd", recipe, tmp_path, dim=4)


def test_half_finished_run_of_a_comparison_is_not_continued_as_another(tmp_path: Path) -> None:
    task, recipe = compare.make_task(None), Recipe(epochs=1, batch=8)
    task.job("pd", recipe, 4, tmp_path).save()
    with pytest.raises(UsageError, match="another loss, dim"):
        compare.run_one(task, "pd_nolog", recipe, tmp_path, dim=5)


@pytest.mark.parametrize(
    ("name", "trunk"), [("dloss_vs_pdloss", "resnet18"), ("batch_size", "resnet50")]
)
def test_experiment_takes_the_papers_trunk_and_says_what_ours_was(
    name: str, trunk: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = compare.make_task(None)
    monkeypatch.setattr(reproduce, "make_task", lambda args: replace(task, trunk=args.trunk))
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", name, "--epochs", "1", "--dataset", "cars"]) == 0
    text = (tmp_path / "runs/reproduce/cars" / name / "table.md").read_text()
    assert f"{trunk} frozen" in text
    assert f"{reproduce.EXPERIMENTS[name].setting}. Ours: test, " in text


def test_variants_are_judged_on_the_part_that_was_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["compare", *TINY, "--losses", "pd,pd_nolog", "--loss-option", "epsilon=1e-3"]
    assert main([*words, "--seeds", "1", "--part", "val", "--out", str(tmp_path)]) == 0
    assert "zero_shot, val, pd: R@1" in capsys.readouterr().out
    with (tmp_path / "runs.csv").open(newline="") as file:
        assert [row["split"] for row in csv.DictReader(file)] == ["zero_shot", "zero_shot"]
    assert "; epsilon=1e-3; val, n = 8;" in (tmp_path / "table.md").read_text()
    assert "| untrained |" in (tmp_path / "table.md").read_text()
    assert '"epsilon": 0.001' in (tmp_path / "pd-0" / "results.json").read_text()


@pytest.mark.parametrize("share", ["0", "25"])
def test_a_spared_share_is_a_share(
    share: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["publish", *PUBLISH, "--utkface", str(tmp_path), "--facts", "none.json"]
    assert main([*words, "--spared", share, "--out", str(tmp_path)]) == 2
    assert f"--spared {share} is no share" in capsys.readouterr().err


def test_groups_are_looked_for_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    facts, groups = tmp_path / "facts.json", tmp_path / "groups"
    facts.write_text('{"summary": "", "terms": "", "making": {}}')
    words = ["publish", *PUBLISH, "--facts", str(facts), "--groups", str(groups)]
    assert main([*words, "--out", str(tmp_path)]) == 2
    assert "holds no folders with photos" in capsys.readouterr().err
    (groups / "one").mkdir(parents=True)
    (groups / "one" / "a.jpg").touch()
    assert main([*words, "--out", str(tmp_path)]) == 3
    assert "lacks groups" in capsys.readouterr().err
    facts.write_text("[]")
    assert main([*words, "--out", str(tmp_path)]) == 2
    assert "holds no JSON object" in capsys.readouterr().err
