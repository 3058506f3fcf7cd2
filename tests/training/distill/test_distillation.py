from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file

from model.bundle import Bundle
from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.errors import FaceError
from tests.model.helpers import small_bundle
from tests.paths import ROOT
from training.__main__ import main
from training.distill.distillation import (
    Distillation,
    DistillationRecipe,
    batch_rows,
    distillation_loss,
    lift,
)
from training.learn import checkpoint


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher with random weights and forty people of three noise pictures each."""
    root = tmp_path_factory.mktemp("world")
    small_bundle(root / "teacher")
    rng = np.random.default_rng(0)
    for person in range(40):
        folder = root / "people" / f"p{person:02}"
        folder.mkdir(parents=True)
        base = rng.integers(0, 256, (7, 7, 3), np.uint8)
        for photo in range(3):
            noisy = np.clip(base + rng.normal(0, 20, base.shape), 0, 255).astype(np.uint8)
            Image.fromarray(noisy).resize((112, 112)).save(folder / f"{photo}.png")
    return root


def command(world: Path, out: Path, *more: str) -> list[str]:
    return [
        "distill", "--teacher", str(world / "teacher"), "--people", str(world / "people"),
        "--init", "scratch", "--trunk", "resnet18", "--dim", "48", "--batch", "8",
        "--stages", "32:64,48:32", "--settle", "0.3", "--every", "2",
        "--cache", str(world / "cache"),
        "--out", str(out), *more,
    ]  # fmt: skip


def run(program: list[str], arguments: list[str]) -> int:
    """Exit code of a process of its own; sums depend on the number of threads, so one."""
    return subprocess.run(
        [sys.executable, "-m", *program, *arguments],
        cwd=ROOT, stdout=subprocess.DEVNULL, check=False, timeout=600,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    ).returncode  # fmt: skip


def test_a_run_that_was_killed_ends_with_the_same_weights(world: Path, tmp_path: Path) -> None:
    assert run(["training"], command(world, tmp_path / "whole")) == 0
    cut = command(world, tmp_path / "cut", "--resume")
    assert run(["tests.training.killed", "3"], cut) == -signal.SIGKILL
    assert checkpoint.load(tmp_path / "cut" / "last.pt")["step"] == 4
    assert not (tmp_path / "cut" / "bundle").exists()
    assert run(["training"], cut) == 0
    whole, cut = (
        load_file(tmp_path / name / "bundle" / "weights.safetensors") for name in ("whole", "cut")
    )
    for name, tensor in whole.items():
        torch.testing.assert_close(cut[name], tensor, rtol=0, atol=0)


def test_the_student_comes_closer_to_the_teacher(world: Path, tmp_path: Path) -> None:
    assert main(command(world, tmp_path / "run", "--stages", "48:480", "--every", "20")) == 0
    with (tmp_path / "run" / "metrics.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [row["step"] for row in rows[:2]] == ["0", "20"]
    assert float(rows[-1]["train_distance"]) < float(rows[1]["train_distance"]) - 0.03
    assert float(rows[-1]["distance"]) < float(rows[0]["distance"])
    assert Bundle.load(tmp_path / "run" / "bundle").preprocessing.input_size == 48


def test_a_fitted_head_begins_closer_to_the_teacher(world: Path, tmp_path: Path) -> None:
    short = ("--stages", "48:8", "--every", "1")
    assert main(command(world, tmp_path / "start", *short)) == 0
    begins = []
    for name, more in (("plain", []), ("fitted", ["--refit-head"])):
        start = ("--init", str(tmp_path / "start" / "bundle"), "--seed", "1")
        assert main(command(world, tmp_path / name, *short, *start, *more)) == 0
        with (tmp_path / name / "metrics.csv").open() as file:
            begins.append(float(next(csv.DictReader(file))["distance"]))
        made = Bundle.load(tmp_path / name / "bundle").provenance
        assert made["head fitted"] == bool(more)
        assert made["init"] == Bundle.load(tmp_path / "start" / "bundle").model_id[:12]
    plain, fitted = begins
    assert fitted < plain - 0.3


def test_a_head_is_not_fitted_to_features_that_are_not_trained(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, tmp_path / "run", "--refit-head")) == 2
    assert "would start fresh" in capsys.readouterr().err


def small_job(faces: int = 4, teacher: str = "sface", **changes: object) -> Distillation:
    recipe = replace(DistillationRecipe(stages=((32, 40),), batch=4, settle=0.4), **changes)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=16, head_norm=True))
    material = {"teacher": teacher, "number of faces": faces}
    return Distillation(net, recipe, Preprocessing(input_size=32), material)


def test_a_run_goes_on_only_with_its_own_faces(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = (world / "people", tmp_path / "others")
    shutil.copytree(*folders)
    given, turned = ([str(folder) for folder in order] for order in (folders, folders[::-1]))
    run = command(world, tmp_path / "run", "--people")
    assert main([*run, *given]) == 0
    assert main([*run, *given, "--resume"]) == 0
    assert main([*run, *turned, "--resume"]) == 3
    assert "made with another faces" in capsys.readouterr().err


def test_a_checkpoint_older_than_a_setting_had_its_default(tmp_path: Path) -> None:
    small_job().save(tmp_path / "last.pt")
    state = checkpoint.load(tmp_path / "last.pt")
    del state["settings"]["freeze"]
    checkpoint.save(tmp_path / "last.pt", state)
    small_job().load(tmp_path / "last.pt")
    with pytest.raises(FaceError, match="another freeze"):
        small_job(freeze="layer1").load(tmp_path / "last.pt")


def test_an_interrupted_run_says_how_to_go_on(
    world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(*_: object) -> float:
        raise KeyboardInterrupt

    monkeypatch.setattr(Distillation, "train_step", interrupted)
    assert main(command(world, tmp_path / "run")) == 130
    assert "stopped at step 0; the same command with --resume" in capsys.readouterr().out


def test_a_damaged_checkpoint_is_a_sentence(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "last.pt").write_bytes(b"half of a checkpoint")
    assert main(command(world, tmp_path / "run", "--resume")) == 3
    assert "damaged, or no checkpoint" in capsys.readouterr().err


def test_a_run_goes_on_only_with_its_own_recipe_and_material(tmp_path: Path) -> None:
    small_job().save(tmp_path / "last.pt")
    small_job().load(tmp_path / "last.pt")
    with pytest.raises(FaceError, match="another lr"):
        small_job(lr=1e-5).load(tmp_path / "last.pt")
    with pytest.raises(FaceError, match="number of faces"):
        small_job(faces=5).load(tmp_path / "last.pt")
    with pytest.raises(FaceError, match="another teacher"):
        small_job(teacher="other").load(tmp_path / "last.pt")


def test_statistics_are_kept_once_the_run_settles() -> None:
    job = small_job()
    recipe, net = job.recipe, job.net
    assert recipe.settles_at == 6
    crops = np.random.default_rng(0).integers(0, 256, (4, 112, 112, 3), np.uint8)
    targets = lift(16, 16, seed=0)[:4]
    seen = []
    for _ in range(recipe.steps):
        averaged = job.ema.net.trunk.bn1.running_var.clone()
        job.train_step(crops, targets)
        seen.append((net.trunk.bn1.running_var.clone(), net.trunk.bn1.weight.clone(), averaged))
    for (before, *_), (after, *_) in pairwise(seen[:6]):
        assert not torch.equal(before, after)
    settled = seen[6:]
    for variance, _, _ in settled:
        assert torch.equal(variance, settled[0][2])
    assert not torch.equal(settled[0][1], settled[-1][1])


def test_frozen_stages_stay_to_the_bit_and_the_others_learn() -> None:
    job = small_job(freeze="layer2")
    before = {name: value.clone() for name, value in job.net.state_dict().items()}
    crops = np.random.default_rng(0).integers(0, 256, (4, 112, 112, 3), np.uint8)
    for _ in range(job.recipe.steps):
        job.train_step(crops, lift(16, 16, seed=0)[:4])
    kept = ("trunk.conv1", "trunk.bn1", "trunk.layer1", "trunk.layer2")
    for name, value in job.net.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith(kept), name


def test_a_stage_that_is_not_there_is_refused_before_anything_is_computed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for stage in ("layer9", "layer4"):
        assert main(command(tmp_path, tmp_path / "run", "--freeze", stage)) == 2
        assert "give one of conv1, bn1, relu, maxpool, layer1, layer2" in capsys.readouterr().err


def test_random_weights_are_not_frozen(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, tmp_path / "run", "--freeze", "layer1")) == 2
    assert "would keep conv1, bn1, relu, maxpool, layer1 at random" in capsys.readouterr().err


def test_a_batch_of_one_is_refused(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, tmp_path / "run", "--batch", "1")) == 2
    assert "two images or more" in capsys.readouterr().err


def test_two_processes_learn_what_one_does(world: Path, tmp_path: Path) -> None:
    """Not bit for bit: each process normalises its own half of the batch."""
    stages = ("--stages", "48:160", "--every", "20")
    assert main(command(world, tmp_path / "one", *stages)) == 0
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    arguments = [*run, "-m", "training", *command(world, tmp_path / "two", *stages)]
    # The results count, not the exit: gloo's threads now and then abort a finished process.
    subprocess.run(arguments, cwd=ROOT, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert (tmp_path / "two" / "bundle").is_dir()
    last = []
    for name in ("one", "two"):
        with (tmp_path / name / "metrics.csv").open() as file:
            last.append(float(list(csv.DictReader(file))[-1]["train_distance"]))
    assert last[1] == pytest.approx(last[0], abs=0.1)


def test_lift_keeps_every_angle() -> None:
    vectors = torch.nn.functional.normalize(torch.randn(10, 16), dim=1)
    lifted = vectors @ lift(16, 64, seed=0).T
    torch.testing.assert_close(lifted @ lifted.T, vectors @ vectors.T)
    with pytest.raises(FaceError, match="--dim 16"):
        lift(16, 8, seed=0)


def test_loss_against_the_definition_and_zero_at_the_target() -> None:
    a, b = (torch.nn.functional.normalize(torch.randn(6, 5), dim=1) for _ in range(2))
    loss, distance = distillation_loss(a, b, gram=4.0)
    x, y = a.numpy().astype(float), b.numpy().astype(float)
    cosine = np.mean([1 - x[i] @ y[i] for i in range(6)])
    gram = np.mean([(x[i] @ x[j] - y[i] @ y[j]) ** 2 for i in range(6) for j in range(6)])
    assert distance.item() == pytest.approx(cosine, abs=1e-6)
    assert loss.item() == pytest.approx(cosine + 4 * gram, abs=1e-5)
    assert distillation_loss(b, b, 4.0)[0].item() == pytest.approx(0, abs=1e-6)


@given(st.integers(1, 9), st.integers(10, 60), st.integers(0, 5))
@settings(deadline=None, max_examples=30)
def test_an_epoch_sees_no_face_twice(batch: int, count: int, seed: int) -> None:
    per_epoch = count // batch
    for epoch in range(2):
        steps = range(epoch * per_epoch, (epoch + 1) * per_epoch)
        rows = np.concatenate([batch_rows(step, batch, count, seed) for step in steps])
        assert len(set(rows)) == len(rows) == per_epoch * batch


def test_schedule_warms_up_stays_and_falls_to_zero() -> None:
    recipe = DistillationRecipe(stages=((64, 6400), (96, 6400)), batch=64, warmup=10, decay=0.5)
    assert recipe.steps == 200
    assert [recipe.size_at(step) for step in (0, 99, 100, 199)] == [64, 64, 96, 96]
    rates = [recipe.lr_at(step) for step in range(200)]
    assert rates[0] == pytest.approx(recipe.lr / 10)
    assert rates[9:101] == pytest.approx([recipe.lr] * 92)
    assert all(after < before for before, after in pairwise(rates[101:]))
    assert rates[-1] < recipe.lr * 1e-3


def test_a_teacher_that_is_no_bundle_is_a_sentence(
    world: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(command(world, tmp_path, "--teacher", str(tmp_path))) == 3
    assert "not a model bundle" in capsys.readouterr().err


def test_unknown_words_are_answered_with_the_likely_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["distil"]) == 2
    assert "Did you mean distill?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["distill", "--teacher", "t", "--out", "o", "--stage", "64:1"])
    assert "did you mean --stages?" in capsys.readouterr().err
