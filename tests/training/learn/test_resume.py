"""A run taken up again ends with the very weights of one that was never stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from tests.paths import ROOT
from tests.training.jobs import make_job
from training.errors import UsageError
from training.learn import checkpoint


def test_resumed_run_equals_an_uninterrupted_one(tmp_path: Path) -> None:
    whole = make_job(tmp_path / "whole", ema=0.9)
    whole.run()
    first = make_job(tmp_path / "parts", ema=0.9)
    first.checkpoint_every = 7

    class Stop(Exception):
        pass

    original = first.train_step

    def stop_at_17(*args: torch.Tensor) -> float:
        if first.step == 17:
            raise Stop
        return original(*args)

    first.train_step = stop_at_17
    with pytest.raises(Stop):
        first.run()
    second = make_job(tmp_path / "parts", ema=0.9)
    second.load()
    assert second.step == 14
    second.run()
    for ours, theirs in ((second.net, whole.net), (second.ema.net, whole.ema.net)):
        for name, value in theirs.state_dict().items():
            assert torch.equal(ours.state_dict()[name], value), name
    assert torch.equal(second.loss.proxies, whole.loss.proxies)
    assert [row["step"] for row in second.history] == [row["step"] for row in whole.history]


@pytest.mark.parametrize(("where", "step"), [("compute", 4), ("evaluate", 18)])
def test_interrupted_run_resumes_to_the_same_weights_and_rows(
    where: str, step: int, tmp_path: Path
) -> None:
    whole = make_job(tmp_path / "whole", norm=True)
    whole.run()
    first = make_job(tmp_path / "parts", norm=True)
    first.checkpoint_every = 4
    part = first.loss if where == "compute" else first
    original = getattr(part, where)

    def interrupted(*args: object) -> object:
        if first.step == step:
            raise KeyboardInterrupt
        return original(*args)

    setattr(part, where, interrupted)
    with pytest.raises(KeyboardInterrupt):
        first.run()
    second = make_job(tmp_path / "parts", norm=True)
    second.load()
    assert second.seconds > 0
    second.run()
    for name, value in whole.net.state_dict().items():
        assert torch.equal(second.net.state_dict()[name], value), name
    for ours, theirs in zip(second.history, whole.history, strict=True):
        assert ours["step"] == theirs["step"]
        assert ours["loss"] == pytest.approx(theirs["loss"], abs=0, nan_ok=True)


def test_another_recipe_is_not_resumed(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=1)
    job.run()
    with pytest.raises(ValueError, match="another lr"):
        make_job(tmp_path, epochs=1, lr=0.5).load()


def test_a_run_of_another_command_is_not_resumed(tmp_path: Path) -> None:
    checkpoint.save(tmp_path / "last.pt", {"settings": {}, "step": 3})
    with pytest.raises(UsageError, match="another command"):
        make_job(tmp_path, epochs=1).load()


def test_checkpoint_older_than_a_field_of_the_recipe_is_resumed(tmp_path: Path) -> None:
    make_job(tmp_path, epochs=1).save()
    state = checkpoint.load(tmp_path / "last.pt")
    del state["recipe"]["loss_weight"]
    checkpoint.save(tmp_path / "last.pt", state)
    make_job(tmp_path, epochs=1).load()
    with pytest.raises(ValueError, match="another loss_weight"):
        make_job(tmp_path, epochs=1, loss_weight=2.0).load()


def test_another_number_of_processes_is_not_resumed(tmp_path: Path) -> None:
    make_job(tmp_path, epochs=1).save()
    job = make_job(tmp_path, epochs=1)
    job.world = 2
    with pytest.raises(ValueError, match="another number of processes"):
        job.load()
    state = checkpoint.load(tmp_path / "last.pt")
    del state["settings"]["number of processes"]
    checkpoint.save(tmp_path / "last.pt", state)
    job.load()


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten people of coloured noise, six aligned pictures each."""
    root = tmp_path_factory.mktemp("people")
    rng = np.random.default_rng(0)
    for person in range(10):
        (root / f"p{person}").mkdir()
        colour = rng.integers(0, 255, 3)
        for number in range(6):
            pixels = np.clip(colour + rng.normal(0, 40, (112, 112, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / f"p{person}" / f"{number}.png")
    return root


def fit_command(
    people: Path, out: Path, *more: str, program: tuple[str, ...] = ("training",)
) -> list[str]:
    return [
        sys.executable, "-m", *program, "fit", "--dataset", "celeba", "--data", str(people),
        "--trunk", "resnet18", "--init", "scratch", "--size", "32", "--dim", "16", "--batch", "8",
        "--epochs", "6", "--lr", "1e-3", "--checkpoint-every", "4", "--out", str(out),
        "--cache", str(people.parent / "cache"), *more,
    ]  # fmt: skip


def test_killed_run_resumes_to_the_same_weights(people: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    whole = subprocess.run(
        fit_command(people, tmp_path / "whole"),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert whole.returncode == 0, whole.stderr
    assert "identity_disjoint" in whole.stdout
    killed = subprocess.run(
        fit_command(people, tmp_path / "killed", program=("tests.training.killed", "2")),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert (tmp_path / "killed/last.pt").exists()
    assert not (tmp_path / "killed/results.json").exists()
    resumed = subprocess.run(
        fit_command(people, tmp_path / "killed", "--resume"),
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=600,
    )  # fmt: skip
    assert resumed.returncode == 0, resumed.stderr
    assert "resumed at step 4 of" in resumed.stdout
    ours, theirs = (
        torch.load(tmp_path / name / "net.pt", weights_only=True)["net"]
        for name in ("killed", "whole")
    )
    for name, value in theirs.items():
        assert torch.equal(ours[name], value), name
    result = json.loads((tmp_path / "killed/results.json").read_text())
    assert result["split"].startswith("split identity_disjoint")
    assert (tmp_path / "killed/bundle/bundle.json").is_file()
