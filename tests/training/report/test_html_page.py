"""Reports and comparisons on a small real run."""

from __future__ import annotations

import argparse
import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file

from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.errors import BundleError, FaceError
from tests.model.helpers import small_bundle
from training.__main__ import Parser, main
from training.commands import compare, evaluate, reproduce
from training.datasets.table import Table
from training.errors import UsageError
from training.inputs.features import Whole, cached_features, frozen_trunk, weights_id
from training.learn.initial_weights import initialise
from training.learn.recipe import Recipe
from training.learn.task import Task
from training.report import plots
from training.report.html_page import evaluation_page, png
from training.splits import split


@pytest.fixture(scope="module")
def task() -> Task:
    """Twenty classes of coloured squares with noisy features."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(20), 8)
    paths = tuple(Path(str(row)) for row in range(160))
    table = Table("toy", paths, labels, tuple(map(str, range(20))))
    features = rng.normal(size=(160, 12)) + 2 * rng.normal(size=(20, 12))[labels]
    images = np.broadcast_to(labels.astype(np.uint8)[:, None, None, None] * 12, (160, 16, 16, 3))
    parts = split(table, "zero_shot")
    return Task(table, parts, images, features.astype(np.float32), "toy", "", 16)


def test_page_holds_every_figure_and_its_split(task: Task, tmp_path: Path) -> None:
    rows = task.split.test
    vectors = task.features[rows] / np.linalg.norm(task.features[rows], axis=1, keepdims=True)
    history = [{"epoch": n, "loss": 1 / (n + 1), "R@1": n / 5} for n in range(4)]
    subtitle = task.split.describe(task.table)
    page = evaluation_page(
        "toy <run>", subtitle, images=task.images[rows], labels=task.table.labels[rows],
        after=vectors, before=np.roll(vectors, 3, axis=0), history=history,
    )  # fmt: skip
    page.write(tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "toy &lt;run&gt;" in text
    assert "split zero_shot: train" in text
    assert "not supported by n" in text
    assert text.count("data:image/png;base64,") >= 7


def test_only_wrong_neighbours_are_framed_in_red() -> None:
    """A query of class 0, a neighbour of class 0, one of class 1: grey squares side by side."""
    images = np.full((3, 16, 16, 3), 128, np.uint8)
    neighbours = np.array([[1, 2], [0, 2], [0, 1]])
    drawing = plots.neighbour_grid(images, np.array([0, 0, 1]), neighbours, [0])
    pixels = np.array(Image.open(io.BytesIO(png(drawing))).convert("RGB"))
    red = (pixels == [0xD6, 0x27, 0x28]).all(2)
    height = len(pixels)
    grey = np.flatnonzero((pixels[height // 2] == 128).all(1))
    _, right, wrong = np.split(grey, np.flatnonzero(np.diff(grey) > 1) + 1)
    assert not red[:, : right[-1] + 3].any()
    assert red[height // 2, wrong[0] - 3 : wrong[0]].any()
    assert red[height // 2, wrong[-1] + 1 : wrong[-1] + 4].any()


def test_comparison_trains_every_loss_under_one_budget(task: Task, tmp_path: Path) -> None:
    recipe = Recipe(epochs=3, batch=16, lr=1e-2)
    results = {}
    for name in ("pd", "circle"):
        results[name] = [
            compare.run_one(task, name, replace(recipe, seed=s), tmp_path / f"{name}{s}", dim=8)
            for s in range(2)
        ]
    compare.write_table(tmp_path, results, "toy, split zero_shot")
    table = (tmp_path / "table.md").read_text()
    assert "split zero_shot" in table
    assert "over 2 seeds" in table
    row = next(line for line in table.splitlines() if line.startswith("| pd"))
    values = [run["metrics"]["R@1"]["value"] for run in results["pd"]]
    assert f"{np.mean(values):.4f} ± {np.std(values, ddof=1):.4f}" in row
    rows = (tmp_path / "runs.csv").read_text().splitlines()
    assert len(rows) == 1 + sum(map(len, results.values()))
    assert rows[1].startswith(f"{next(iter(results))},0,")
    for name in ("recall_at_1.png", "curves.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_finished_run_is_read_back_only_with_its_own_settings(task: Task, tmp_path: Path) -> None:
    recipe = Recipe(epochs=1, batch=16, lr=1e-2)
    first = compare.run_one(task, "pd", recipe, tmp_path, dim=8)
    stamp = (tmp_path / "results.json").stat().st_mtime_ns
    again = compare.run_one(task, "pd", recipe, tmp_path, dim=8)
    assert again["metrics"] == first["metrics"]
    assert (tmp_path / "results.json").stat().st_mtime_ns == stamp
    with pytest.raises(FaceError, match="other settings"):
        compare.run_one(task, "pd", replace(recipe, lr=1.0), tmp_path, dim=8)


def test_seed_fixes_everything(task: Task, tmp_path: Path) -> None:
    recipe = Recipe(epochs=1, batch=16, lr=1e-2, seed=5)
    one, same, other = (
        compare.run_one(task, "pd", replace(recipe, seed=seed), tmp_path / name, dim=8)
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    )
    assert one["metrics"] == same["metrics"]
    assert one["metrics"] != other["metrics"]


@pytest.mark.parametrize("name", reproduce.EXPERIMENTS)
def test_experiments_of_the_paper_run_and_stand_beside_it(
    name: str, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reproduce, "make_task", lambda args: task)
    parser = argparse.ArgumentParser()
    reproduce.add_arguments(parser)
    options = ["--epochs", "1", "--batch", "16", "--lr", "1e-2", "--out", str(tmp_path)]
    assert reproduce.run(parser.parse_args([name, *options])) == 0
    text = (tmp_path / name / "table.md").read_text()
    assert "zero_shot" in text
    for row, numbers in reproduce.EXPERIMENTS[name].paper.items():
        assert row in text
        assert f"{numbers[0]:.4f}" in text


def test_experiments_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in reproduce.EXPERIMENTS)
    assert main(["reproduce", "main_comparision"]) == 2
    assert "There is no experiment" in capsys.readouterr().err


def test_unknown_option_of_fit_suggests_the_right_one(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["fit", "--dataset", "cub", "--out", "x", "--epoch", "3"])
    assert "did you mean --epochs" in capsys.readouterr().err


def test_evaluate_needs_exactly_one_thing_to_measure() -> None:
    parser = Parser()
    evaluate.add_arguments(parser)
    with pytest.raises(FaceError, match="either --run"):
        evaluate.run(parser.parse_args([]))
    with pytest.raises(UsageError, match="against needs --bundle"):
        evaluate.run(parser.parse_args(["--run", "run", "--against", "bundle"]))


def test_run_is_evaluated_from_its_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """fit on pictures, then evaluate: the figures of the run are found again."""
    rng = np.random.default_rng(0)
    for person in range(10):
        (tmp_path / "data" / f"p{person}").mkdir(parents=True)
        colour = rng.integers(0, 255, 3)
        for number in range(4):
            pixels = np.clip(colour + rng.normal(0, 40, (112, 112, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(tmp_path / "data" / f"p{person}" / f"{number}.png")
    run = tmp_path / "run"
    (tmp_path / "exclude.txt").write_text("data/p0\ndata/nobody\n")
    command = [
        "fit", "--dataset", "celeba", "--data", str(tmp_path / "data"), "--trunk", "resnet18",
        "--init", "scratch", "--size", "32", "--dim", "8", "--batch", "8", "--epochs", "1",
        "--lr", "1e-3", "--patience", "3", "--out", str(run), "--cache", str(tmp_path / "cache"),
        "--exclude", str(tmp_path / "exclude.txt"),
    ]  # fmt: skip
    assert main(command) == 0
    assert "names 1 who are not here, such as data/nobody" in capsys.readouterr().out
    assert main(["evaluate", "--run", str(run)]) == 0
    fitted = json.loads((run / "results.json").read_text())
    found = json.loads((run / "evaluation-test.json").read_text())
    for name in ("R@1", "d_prime"):
        assert found["metrics"][name]["value"] == pytest.approx(
            fitted["metrics"][name]["value"], abs=1e-4
        )
    assert found["against"] == "before training"
    assert "<th>minus before training</th>" in (run / "report.html").read_text()
    again, other = tmp_path / "again", small_bundle(tmp_path / "other")
    command = [
        "evaluate", "--bundle", str(run / "bundle"), "--dataset", "celeba", "--data",
        str(tmp_path / "data"), "--cache", str(tmp_path / "cache"), "--out", str(again),
    ]  # fmt: skip
    assert main(command) == 0
    assert "<th>minus " not in (again / "report.html").read_text()
    assert main([*command, "--against", str(other.path)]) == 0
    told = json.loads((again / "evaluation-test.json").read_text())
    assert told["against"] == f"{other.name} ({other.model_id[:12]})"
    assert set(told["difference"]) == set(told["metrics"])
    said = capsys.readouterr().out
    assert f"minus {told['against']}: R@1 " in said
    assert "separate" in said.splitlines()[-1]
    assert main([*command, "--against", str(run / "bundle")]) == 2
    assert "the same model as" in capsys.readouterr().err
    (run / "net.pt").unlink()
    with pytest.raises(FaceError, match="did not finish"):
        evaluate.config(run)


def trunk_state(trunk: str) -> dict[str, torch.Tensor]:
    return EmbeddingNet(Architecture(trunk=trunk)).trunk.state_dict()


def test_features_are_cached_by_pictures_and_weights(tmp_path: Path) -> None:
    torch.manual_seed(0)
    trunk, other = (Whole(EmbeddingNet(Architecture(trunk="resnet18"))).eval() for _ in range(2))
    images = np.random.default_rng(0).integers(0, 255, (5, 32, 32, 3), np.uint8)
    small = Preprocessing(input_size=32)
    first = cached_features(trunk, images, "toy", small, tmp_path)
    assert first.shape == (5, 512)
    assert (cached_features(trunk, images, "toy", small, tmp_path) == first).all()
    assert len(list(tmp_path.iterdir())) == 1
    assert weights_id(other) != weights_id(trunk)
    cached_features(other, images, "toy", small, tmp_path)
    assert len(list(tmp_path.iterdir())) == 2


@pytest.mark.parametrize("trunk", ["resnet18", "mobilenet_v2"])
def test_file_of_torchvision_starts_a_trunk_frozen_or_not(trunk: str, tmp_path: Path) -> None:
    state = trunk_state(trunk)
    file = tmp_path / "trunk.pth"
    torch.save({**state, "fc.weight": torch.zeros(2, 2), "classifier.1.bias": torch.ones(2)}, file)
    net = EmbeddingNet(Architecture(trunk=trunk))
    assert initialise(net, str(file)) == []
    for own in (net.trunk, frozen_trunk(trunk, file).trunk):
        torch.testing.assert_close(own.state_dict(), state, rtol=0, atol=0)


@pytest.mark.parametrize("name", ["weights.pth", "weights.safetensors"])
def test_file_that_holds_no_weights_of_the_trunk_is_named(name: str, tmp_path: Path) -> None:
    file = tmp_path / name
    for content in (b"", b"no weights at all"):
        file.write_bytes(content)
        with pytest.raises(BundleError, match=f"{name} cannot be read"):
            frozen_trunk("resnet18", file)
    write = torch.save if file.suffix == ".pth" else save_file
    write({"conv1.weight": torch.zeros(1, 1, 7, 7)}, file)
    with pytest.raises(BundleError, match=f"{name} does not fit"):
        frozen_trunk("resnet18", file)


def test_checkpoint_of_a_whole_training_is_no_file_of_weights(tmp_path: Path) -> None:
    torch.save({"state_dict": trunk_state("resnet18"), "epoch": 3}, tmp_path / "last.pth")
    with pytest.raises(BundleError, match="not a plain table"):
        frozen_trunk("resnet18", tmp_path / "last.pth")


@pytest.mark.parametrize("missing", ["layer4", "bn1.running_mean", "layer2.0.conv1"])
def test_frozen_trunk_has_no_random_part(missing: str, tmp_path: Path) -> None:
    state = trunk_state("resnet18")
    kept = {name: value for name, value in state.items() if not name.startswith(missing)}
    save_file(kept, tmp_path / "trunk.safetensors")
    with pytest.raises(UsageError, match=rf"none for {missing.split('.')[0]}\. "):
        frozen_trunk("resnet18", tmp_path / "trunk.safetensors")


def test_frozen_trunk_is_not_from_scratch() -> None:
    with pytest.raises(UsageError, match="random weights"):
        frozen_trunk("resnet18", "scratch")
