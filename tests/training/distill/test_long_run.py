"""One run that can be stopped at any step, and ends when it is told to."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from model.bundle import Bundle
from model.embedding.network import Architecture, EmbeddingNet
from tests.training.distill import stores
from training.__main__ import main
from training.datasets.face_set import held_out
from training.distill.long_run import LongRun, Settings
from training.distill.schedule import Schedule
from training.distill.stored_faces import StoredFaces
from training.distill.targets import principal_map, targets


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    back = [name for name in map(str, range(300)) if held_out(f"people/{name}")][:3]
    return stores.store(tmp_path_factory.mktemp("run") / "faces", ["a", "b", "c", "d", *back])


def job(folder: Path, **settings: float) -> tuple[LongRun, StoredFaces]:
    torch.manual_seed(0)
    faces = StoredFaces.open([folder])
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=16, head_norm=True))
    onto = principal_map(faces.vectors(np.arange(len(faces))), 16)
    run = LongRun(net, onto, Schedule(peak=1e-3, warmup=2), 32, Settings(batch=4, **settings))
    run.begin_part(faces)
    return run, faces


def test_a_resumed_run_is_the_run_that_was_never_stopped(folder: Path, tmp_path: Path) -> None:
    whole, faces = job(folder)
    for _ in range(6):
        whole.train_step(faces)
    first, _ = job(folder)
    for _ in range(3):
        first.train_step(faces)
    first.save(tmp_path / "last.pt")
    second = LongRun.load(tmp_path / "last.pt")
    second.begin_part(faces)
    for _ in range(3):
        second.train_step(faces)
    for a, b in zip(whole.ema.net.parameters(), second.ema.net.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=0)
    assert second.parts == whole.parts


def test_steps_bring_the_student_closer(folder: Path) -> None:
    run, faces = job(folder)
    distances = [run.train_step(faces) for _ in range(40)]
    assert np.mean(distances[-10:]) < np.mean(distances[:5])


def test_another_size_or_more_faces_begin_a_part(folder: Path, tmp_path: Path) -> None:
    run, faces = job(folder)
    run.train_step(faces)
    run.save(tmp_path / "last.pt")
    larger = LongRun.load(tmp_path / "last.pt", size=48)
    larger.begin_part(faces)
    larger.train_step(faces)
    assert [part["size"] for part in larger.parts] == [32, 48]
    assert larger.parts[1]["step"] == 1


def test_the_rate_stays_until_it_is_told_to_fall_and_ends_at_zero() -> None:
    schedule = Schedule(peak=1.0, warmup=10)
    assert schedule.rate(4) == pytest.approx(0.5)
    assert schedule.rate(10**6) == 1.0
    falling = Schedule(peak=1.0, warmup=10, decay_from=100, decay_steps=50)
    rates = [falling.rate(step) for step in range(99, 151)]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] == 1.0
    assert falling.end == 150
    assert falling.rate(150) == pytest.approx(0)


def test_batch_norm_statistics_may_be_kept_from_the_first_step(folder: Path) -> None:
    def moved(settle: float) -> bool:
        run, faces = job(folder, settle=settle)
        run.finish(16)
        before = run.net.trunk.bn1.running_mean.clone()
        run.train_step(faces)
        return not torch.equal(before, run.net.trunk.bn1.running_mean)

    assert moved(0.5)
    assert not moved(1.0)


@pytest.mark.slow
def test_a_compiled_step_is_the_same_step(folder: Path) -> None:
    plain, faces = job(folder)
    compiled, _ = job(folder)
    compiled.forward = torch.compile(compiled.net)
    assert compiled.train_step(faces) == pytest.approx(plain.train_step(faces), abs=5e-3)


def test_principal_directions_keep_inner_products() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(200, 6)) @ rng.normal(size=(6, 20))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    found = targets(vectors, principal_map(vectors, 6))
    np.testing.assert_allclose(found @ found.T, vectors @ vectors.T, atol=1e-4)


def test_the_command_goes_on_finishes_and_writes_a_bundle(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = [
        "distill", "--faces", str(folder), "--init", "scratch", "--trunk", "resnet18", "--dim",
        "16", "--batch", "4", "--size", "32", "--out", str(tmp_path / "run"), "--every", "2",
        "--finish", "16",
    ]  # fmt: skip
    assert main(command) == 0
    out = capsys.readouterr().out
    assert "8 faces to learn from, 6 held out" in out
    bundle = Bundle.load(tmp_path / "run" / "bundle")
    assert bundle.preprocessing.input_size == 32
    assert bundle.provenance["teachers"] == ["a.onnx", "b.onnx"]
    rows = (tmp_path / "run" / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "0", "2", "4"]
    assert main([*command[:-2], "--bundle", str(tmp_path / "copy")]) == 0
    assert Bundle.load(tmp_path / "copy").model_id == bundle.model_id


def test_a_store_without_people_to_judge_by_is_refused(tmp_path: Path) -> None:
    lonely = stores.store(tmp_path / "faces", ["a"])
    assert main(["distill", "--faces", str(lonely), "--out", str(tmp_path / "run")]) == 3
    assert not (tmp_path / "run").exists()
