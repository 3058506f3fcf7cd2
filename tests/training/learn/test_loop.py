"""The loop on small real computations: it learns, and divides among processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from model.embedding.network import Architecture, EmbeddingNet
from model.errors import FaceError
from tests.model.helpers import random_crops
from tests.paths import ROOT
from tests.training.jobs import blobs, make_job
from training.errors import UsageError
from training.inputs.prefetch import prefetch
from training.inputs.sources import Features, Head, free_crops
from training.learn import distributed
from training.learn.inference import class_means, embed
from training.learn.loop import Job
from training.learn.recipe import PRESETS, Recipe, recipe
from training.learn.sampling import epoch_batches
from training.losses import LOSSES, build


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_separates_classes_it_could_not_separate_before(
    loss: str, tmp_path: Path
) -> None:
    job = make_job(tmp_path, loss, epochs=12)
    history = job.run()
    assert history[0]["epoch"] == 0
    assert history[-1]["d_prime"] > history[0]["d_prime"] + 0.25
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert len(lines) == len(history) + 1


def test_proxies_move(tmp_path: Path) -> None:
    moved = set()
    for loss in LOSSES:
        job = make_job(tmp_path / loss, loss, epochs=1, weight_decay=0.0)
        if job.loss.proxies is not None:
            before = job.loss.proxies.detach().clone()
            job.run()
            assert not torch.equal(job.loss.proxies, before), loss
            moved.add(loss)
    assert {"pd", "proxy_nca", "proxy_anchor", "arcface"} <= moved


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path) -> None:
    job = make_job(tmp_path)
    job.extra = lambda net, step: torch.tensor(float("nan") if step == 4 else 0.0)
    with pytest.raises(FaceError, match="The loss is nan at step 4"):
        job.run()
    assert job.net.head[0].weight.isfinite().all()


def test_what_several_processes_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = make_job(tmp_path)
    job.world = 5
    with pytest.raises(UsageError, match="16 pictures a batch"):
        job.run()
    job.patience = 1
    with pytest.raises(UsageError, match="--patience works with one process"):
        job.run()
    monkeypatch.setattr(distributed, "world", lambda: 2)
    with pytest.raises(UsageError, match="--compile works with one process"):
        make_job(tmp_path, compile=True)


def test_patience_stops_and_keeps_the_best(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=50)
    job.evaluate_every, job.patience = 1, 2
    values = iter([0.0, 1.0, 3.0, 2.0, 2.5, 9.0])
    job.evaluate = lambda net: {"d_prime": next(values)}
    history = job.run()
    assert [row["d_prime"] for row in history] == [0.0, 1.0, 3.0, 2.0, 2.5]
    assert torch.load(tmp_path / "best.pt", weights_only=True)["epoch"] == 2


def test_extra_term_takes_part(tmp_path: Path) -> None:
    plain, pulled = make_job(tmp_path / "a"), make_job(tmp_path / "b")
    pulled.extra = lambda net, step: 1e3 * net.head[0].weight.square().sum()
    plain.run()
    pulled.run()
    assert pulled.net.head[0].weight.norm() < 0.5 * plain.net.head[0].weight.norm()


def test_without_weight_the_loss_moves_nothing(tmp_path: Path) -> None:
    job = make_job(tmp_path, epochs=1, loss_weight=0.0, weight_decay=0.0)
    before = {name: value.clone() for name, value in job.net.state_dict().items()}
    job.extra = lambda net, step: net.head[0].bias.square().sum()
    job.run()
    moved = {n for n, v in job.net.state_dict().items() if not torch.equal(v, before[n])}
    assert moved == {"head.0.bias"}


def test_factors_and_warmup_of_the_learning_rate() -> None:
    settings = Recipe(epochs=10, lr=1.0, head_lr=2.0, proxy_lr=3.0, warmup=1)
    assert settings.rate(0, 100, 10, "trunk") == 0
    assert settings.rate(0, 100, 10, "head") == 2
    assert settings.rate(0, 100, 10, "proxies") == 3
    assert settings.rate(50, 100, 10, "trunk") == pytest.approx(0.5)
    assert settings.rate(100, 100, 10, "head") == pytest.approx(0)


def test_what_starts_fresh_learns_like_the_head_and_measures_its_own_statistics(
    tmp_path: Path,
) -> None:
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=8))
    before = {name: value.clone() for name, value in net.trunk.state_dict().items()}
    source = Features(np.random.default_rng(0).normal(size=(4, 3, 32, 32)).astype(np.float32))
    warming = Recipe(epochs=1, batch=4, lr=1e-2, warmup=1, freeze_bn=True)
    job = Job(
        net, build("pd", 2, 8), source, np.array([0, 0, 1, 1]), warming, tmp_path,
        fresh=["layer4"], progress=False,
    )  # fmt: skip
    job.run()
    for name, value in net.trunk.state_dict().items():
        if value.is_floating_point():
            moved = not torch.equal(value, before[name])
            assert moved == name.startswith("layer4."), name


def test_paper_preset_is_the_papers() -> None:
    paper = PRESETS["paper"]
    assert (paper.lr, paper.weight_decay, paper.batch, paper.clip) == (1e-5, 1e-4, 32, 1.0)
    assert paper.epochs == 500
    assert recipe("paper", epochs=3, lr=None).epochs == 3
    with pytest.raises(ValueError, match="must be one of paper"):
        recipe("papre")


def test_batches_are_a_function_of_seed_and_epoch() -> None:
    labels = np.repeat(np.arange(10), 9)
    for per_class in (None, 4):
        one, same, next_epoch = (
            np.concatenate(epoch_batches(labels, 16, per_class, 1, epoch)) for epoch in (3, 3, 4)
        )
        assert (one == same).all()
        assert (one != next_epoch).any()
    for rows in epoch_batches(labels, 16, 4, 0, 0):
        assert np.unique(labels[rows], return_counts=True)[1].tolist() == [4, 4, 4, 4]
    plain = np.concatenate(epoch_batches(labels, 16, None, 0, 0))
    assert len(set(plain)) == len(plain) == 80


def test_a_batch_has_pairs_of_both_kinds() -> None:
    labels = np.repeat(np.arange(3), [4, 4, 1])
    assert len(set(labels[epoch_batches(labels, 8, 4, 0, 0)[0]])) == 2
    with pytest.raises(UsageError, match="--batch 8 or more"):
        epoch_batches(labels, 7, 4, 0, 0)
    with pytest.raises(UsageError, match="only one class has two"):
        epoch_batches(labels[4:][labels[4:] != 1].repeat(2), 8, 4, 0, 0)


def test_class_means_are_means() -> None:
    features, labels = blobs()
    net = Head(features.shape[1], 5)
    means = class_means(net, Features(features), labels)
    vectors = embed(net, Features(features), np.arange(len(labels)))
    for label in range(8):
        expected = vectors[labels == label].mean(0)
        np.testing.assert_allclose(means[label].numpy(), expected, rtol=1e-4, atol=1e-5)


def test_prefetch_keeps_order_and_passes_errors_on() -> None:
    assert list(prefetch(range(20))) == list(range(20))

    def broken() -> object:
        yield 1
        raise RuntimeError("no more")

    items = prefetch(broken())
    assert next(items) == 1
    with pytest.raises(RuntimeError, match="no more"):
        next(items)


def test_free_crops_stay_inside_and_mirror() -> None:
    ramp = torch.arange(64, dtype=torch.uint8).view(1, 1, 64, 1).expand(40, 64, 64, 3)
    crops = free_crops(ramp, 16, torch.Generator().manual_seed(0))
    assert crops.shape == (40, 3, 16, 16)
    assert crops.min() >= 0
    assert crops.max() <= 63
    rising = crops[:, 0, 8, -1] > crops[:, 0, 8, 0]
    assert 5 < rising.sum() < 35


DIVIDED = """
import os, sys, torch, torch.distributed as dist
from pathlib import Path
from tests.training.jobs import make_job
rank, world, out = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if world > 1:
    dist.init_process_group("gloo", init_method=f"file://{out}/store", rank=rank, world_size=world)
for loss, shard in (("pd", 0), ("circle", 0), ("pd", 1), ("cllr", 1)):
    job = make_job(Path(out) / f"{loss}{shard}", loss, shard=bool(shard and world > 1), epochs=3)
    job.evaluate, curve, step = None, [], job.train_step
    job.train_step = lambda *args: curve.append(step(*args)) or curve[-1]
    job.run()
    state = {"curve": torch.tensor(curve), "net": job.net.state_dict()}
    torch.save(state, f"{out}/{loss}{shard}{rank}.pt")
    if shard:
        job.load()  # What each process saved is whole.
        assert job.step == job.total
if world > 1:
    dist.barrier()
    dist.destroy_process_group()
# gloo's threads now and then abort a process that is already done, while the interpreter ends.
os._exit(0)
"""


def test_two_processes_follow_the_curve_of_one(tmp_path: Path) -> None:
    for world in (1, 2):
        folder = tmp_path / str(world)
        folder.mkdir()
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", DIVIDED, str(rank), str(world), str(folder)],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )
            for rank in range(world)
        ]
        assert [process.wait(timeout=600) for process in processes] == [0] * world
    for loss in ("pd0", "circle0", "pd1", "cllr1"):
        one = torch.load(tmp_path / f"1/{loss}0.pt", weights_only=True)
        assert len(one["curve"]) == 18
        for rank in range(2):
            two = torch.load(tmp_path / f"2/{loss}{rank}.pt", weights_only=True)
            torch.testing.assert_close(two["curve"], one["curve"], rtol=1e-4, atol=1e-4)
            for name, value in one["net"].items():
                torch.testing.assert_close(two["net"][name], value, rtol=1e-3, atol=1e-3)


@pytest.mark.slow
def test_torchrun_divides_the_proxies_and_resumes(tmp_path: Path) -> None:
    for number, crop in enumerate(random_crops(80)):
        file = tmp_path / "celeba" / f"{number // 10}" / f"{number}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(crop).save(file)
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
        "-m", "training", "fit", "--dataset", "celeba", "--data", str(tmp_path), "--split", "paper",
        "--trunk", "resnet18", "--init", "scratch", "--size", "32", "--dim", "16", "--batch", "16",
        "--preset", "cpu", "--epochs", "2", "--shard-proxies", "--cache", str(tmp_path / "cache"),
        "--out", str(tmp_path / "run"),
    ]  # fmt: skip
    for words in ([], ["--resume"]):
        done = subprocess.run(
            [*command, *words], cwd=ROOT, env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True, text=True, timeout=600, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    shards = [
        torch.load(tmp_path / f"run/last-{rank}.pt", weights_only=True)["loss"]["proxies"]
        for rank in range(2)
    ]
    assert [len(shard) for shard in shards] == [4, 4]
    assert (tmp_path / "run/bundle/bundle.json").is_file()
    assert "resumed at step" in done.stdout
