"""The comparison of losses at an operating point, on features drawn at random."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import nn

from model.bundle import save_network
from model.embedding.preprocess import Preprocessing
from tests.model.helpers import lively_network
from tests.training.distill import stores
from training.__main__ import main
from training.datasets.face_set import held_out
from training.distill import operating_point as experiment
from training.distill.loss import distillation_loss
from training.measure.metrics import Measured


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> experiment.Start:
    """Sixty people with five faces each, half held out; targets are linear. An epoch is a step."""
    monkeypatch.setattr(experiment, "LR", 1e-2)
    torch.manual_seed(0)
    centres, mix = torch.randn(60, 24), torch.randn(24, 16)
    features = (centres[:, None] + 0.8 * torch.randn(2, 60, 5, 24)).flatten(1, 2)
    labels = np.repeat(np.arange(30), 5)
    wanted = F.normalize(features[0] @ mix + torch.randn(300, 16), dim=1)
    return experiment.Start(
        experiment.Faces(features[:, :150], labels, wanted[:150]),
        experiment.Faces(features[:1, 150:], labels, torch.empty(0)),
        nn.Sequential(nn.Linear(24, 16, bias=False), nn.BatchNorm1d(16)).eval(),
    )


@pytest.mark.parametrize("name", [name for name in experiment.LOSSES if name != "none"])
def test_losses_press_as_hard_as_the_teacher(start: experiment.Start, name: str) -> None:
    loss = start.loss(name, 0)
    assert loss is not None
    weight = start.weight(loss, 0)
    sums = np.zeros(2)
    for features, labels, wanted in list(start.batches(0, 0))[: experiment.PROBES]:
        vectors = experiment.embedded(start.head, features).requires_grad_()
        for place, term in enumerate(
            (distillation_loss(vectors, wanted)[0], weight * loss(vectors, labels))
        ):
            sums[place] += float(torch.autograd.grad(term, vectors)[0].norm())
    assert sums[1] == pytest.approx(sums[0], rel=1e-4)


def test_every_loss_sees_the_same_batches_and_learns(start: experiment.Start) -> None:
    first, again = (next(iter(start.batches(1, 2)))[0] for _ in range(2))
    torch.testing.assert_close(first, again)
    before = {name: p.clone() for name, p in start.head.named_parameters()}
    heads = {name: experiment.train(start, name, 0, 30)[0] for name in ("none", "pd")}
    for name, value in start.head.named_parameters():
        assert torch.equal(value, before[name])
    distance = {
        name: float(distillation_loss(
            experiment.embedded(head, start.learnt.features[0]), start.learnt.wanted)[1])
        for name, head in {"start": start.head, **heads}.items()
    }  # fmt: skip
    assert distance["none"] < distance["start"] - 0.2
    assert distance["none"] < distance["pd"]


def test_difference_is_over_people_and_seeds() -> None:
    people = np.random.default_rng(0).normal(size=1000)

    def run(value: float, noise: np.ndarray) -> Measured:
        return Measured({}, {"eer": value}, {"eer": value + noise})

    for noise in (np.zeros(1000), people):  # The same people are drawn for all: they cancel.
        ours, others = [run(0.1, noise), run(0.3, noise)], [run(0.0, noise)] * 2
        assert experiment.difference(ours, others, "eer") == pytest.approx((0.2, 0.1, 0.3))
    _, low, high = experiment.difference([run(0.2, people)], [run(0.0, 0 * people)], "eer")
    assert (low, high) == pytest.approx((0.2 - 1.96, 0.2 + 1.96), abs=0.2)


def test_command_says_what_it_needs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "operating_point", "--out", str(tmp_path)]) == 2
    assert "--faces" in capsys.readouterr().err


def test_command_trains_and_compares_the_losses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    back = [name for name in map(str, range(5000)) if held_out(f"people/{name}")][:13]
    faces = stores.store(tmp_path / "faces", ["a", "b", "c", "d", *back])
    net = lively_network(dim=16, head_norm=True)
    save_network(tmp_path / "bundle", net, Preprocessing(input_size=32), name="net", card="")
    monkeypatch.setattr(experiment, "BATCH", 4)
    monkeypatch.setattr(experiment, "PER_PERSON", 2)
    for name in ("arcface", "multi_similarity", "cllr, prior 0.02"):
        monkeypatch.delitem(experiment.LOSSES, name)
    command = [
        "reproduce", "operating_point", "--faces", str(faces), "--init", str(tmp_path / "bundle"),
        "--epochs", "1", "--seeds", "2", "--out", str(tmp_path / "out"), "--cache", str(tmp_path),
    ]  # fmt: skip
    assert main(command) != 0
    assert "too few" in capsys.readouterr().err
    monkeypatch.setattr(experiment, "RATES", {"fnmr@0.1": "cllr, prior 1e-3"})
    assert main(command) == 0
    table = (tmp_path / "out" / "table.md").read_text()
    assert "8 faces of 4 people to learn from; measured on 26 faces of 13 others" in table
    rows = [line.split("|")[1].strip() for line in table.splitlines() if line.startswith("| ")]
    assert rows == ["loss", "start", *experiment.LOSSES]
