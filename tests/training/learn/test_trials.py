"""The fair protocol: equal trials, judged inside the training part, test touched once."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.training.jobs import blobs
from training.__main__ import main
from training.commands import compare
from training.datasets.table import Table
from training.errors import UsageError
from training.inputs.features import reduced
from training.learn.recipe import Recipe
from training.learn.task import Task
from training.learn.trials import choose, folds, trials
from training.losses import CHOICES, LOSSES, build
from training.splits import split

RECIPE = Recipe(epochs=3, batch=16, lr=1e-2)


def make_task(name: str) -> Task:
    features, labels = blobs(12)
    paths = tuple(Path(f"{row}.jpg") for row in range(len(labels)))
    table = Table("toy", paths, labels, tuple(map(str, range(12))))
    images = np.zeros((len(labels), 32, 32, 3), np.uint8)
    return Task(table, split(table, name), images, features, "toy", "", 32)


def test_every_loss_has_its_option_to_choose_with_its_default_first() -> None:
    assert CHOICES.keys() == LOSSES.keys()
    for name, (option, values) in CHOICES.items():
        build(name, 4, 4, **{option: values[-1]})
        plain, first = build(name, 4, 4), build(name, 4, 4, **{option: values[0]})
        assert {k: v for k, v in vars(plain).items() if isinstance(v, int | float)} == {
            k: v for k, v in vars(first).items() if isinstance(v, int | float)
        }


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_gets_as_many_different_trials(name: str) -> None:
    tried = trials(name, RECIPE, 6, {})
    assert tried[0].recipe == RECIPE
    assert tried[0].options == {CHOICES[name][0]: CHOICES[name][1][0]}
    assert len({repr(trial) for trial in tried}) == 6
    assert tried == trials(name, RECIPE, 6, {})
    square = trials(name, RECIPE, 9, {})
    rates = [trial.recipe.lr for trial in square]
    assert rates == [trial.recipe.lr for trial in trials("pd", RECIPE, 9, {})]
    options = [trial.options[CHOICES[name][0]] for trial in square]
    assert len(set(zip(rates, options, strict=True))) == 9
    proxies = [trial.recipe.proxy_lr for trial in square]
    if build(name, 2, 2).proxies is None:
        assert set(proxies) == {RECIPE.proxy_lr}
    else:
        assert len(set(zip(rates, proxies, strict=True))) == 9
        assert len(set(zip(options, proxies, strict=True))) == 9


def test_an_option_that_is_given_is_kept() -> None:
    tried = trials("pd", RECIPE, 5, {"epsilon": 0.5, "temperature": 2.0})
    assert all(trial.options == {"epsilon": 0.5, "temperature": 2.0} for trial in tried)
    assert len({repr(trial) for trial in tried}) == 5
    with pytest.raises(UsageError, match="nine"):
        trials("pd", RECIPE, 10, {})


@pytest.mark.parametrize(("name", "shared"), [("paper", True), ("zero_shot", False)])
def test_folds_divide_the_training_part_alone(name: str, shared: bool) -> None:
    task = make_task(name)
    labels = task.table.labels
    parts = [part.split for part in folds(task, 2)]
    for part in parts:
        np.testing.assert_array_equal(np.sort([*part.train, *part.val]), task.split.train)
        assert bool(set(labels[part.train]) & set(labels[part.val])) == shared
        assert not set(part.test) & set(task.split.test)
    assert not set(parts[0].val) & set(parts[1].val)
    assert len(parts[0].val) == pytest.approx(len(task.split.train) / 2, rel=0.2)


def test_the_best_trial_of_the_folds_is_chosen(tmp_path: Path) -> None:
    task = make_task("paper")
    still = replace(RECIPE, lr=0.0)
    tried = [replace(trials("pd", RECIPE, 1, {})[0], recipe=each) for each in (still, RECIPE)]
    best, rows = choose(task, "pd", tried, tmp_path, dim=8)
    assert best.recipe.lr == RECIPE.lr
    assert [row["chosen"] for row in rows] == [False, True]
    assert rows[1]["R@1"] > rows[0]["R@1"]


def test_the_choice_does_not_depend_on_the_test_part(tmp_path: Path) -> None:
    task = make_task("paper")
    spoilt = task.features.copy()
    spoilt[task.split.test] = 0
    tried = trials("pd", RECIPE, 3, {})
    rows = [
        choose(each, "pd", tried, tmp_path / str(number), dim=8)[1]
        for number, each in enumerate((task, replace(task, features=spoilt)))
    ]
    assert rows[0] == rows[1]


def test_compare_writes_all_trials_beside_its_table(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = make_task("paper")
    monkeypatch.setattr(compare, "make_task", lambda args: task)
    words = ["compare", "--losses", "pd,circle", "--choose", "3", "--choose-epochs", "1"]
    words += ["--seeds", "2", "--epochs", "2", "--batch", "16", "--dim", "4", "--lr", "0.01"]
    words += ["--replicates", "20", "--out", str(tmp_path)]
    assert main(words) == 0
    text = (tmp_path / "table.md").read_text()
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    assert sum(line.startswith("| circle") for line in rows) == 1 + 3
    assert sum(line.endswith("| yes |") for line in rows) == 2
    assert "95% interval over classes" in text
    with (tmp_path / "runs.csv").open() as file:
        runs = list(csv.DictReader(file))
    assert [(run["name"], run["seed"], run["part"]) for run in runs] == [
        (name, seed, "test") for name in ("pd", "circle") for seed in "01"
    ]
    assert main(words) == 0  # Finished runs are read back.
    assert (tmp_path / "table.md").read_text() == text


def test_principal_components_are_those_of_the_rows_that_are_trained_on() -> None:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(60, 5)).astype(np.float32) * [5, 3, 1, 0.1, 0.1]
    features[40:] *= 100
    few = reduced(features.astype(np.float32), np.arange(40), 2)
    assert few.shape == (60, 2)
    spread = few[:40].var(0)
    assert spread[0] > spread[1] > 1
    whole = np.linalg.svd(features[:40] - features[:40].mean(0), compute_uv=False)
    np.testing.assert_allclose(spread * 40, whole[:2] ** 2, rtol=1e-4)
    with pytest.raises(UsageError, match="--reduce 9"):
        reduced(features, np.arange(40), 9)
