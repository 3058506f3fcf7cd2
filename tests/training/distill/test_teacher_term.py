"""The term that keeps the teachers' targets while fine-tuning."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
import torch

from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from tests.training.distill import stores
from training.distill.long_run import LAST, LongRun, Settings
from training.distill.schedule import Schedule
from training.distill.stored_faces import StoredFaces
from training.distill.targets import principal_map
from training.distill.teacher_term import TeacherTerm, add_keep_arguments, keep_teacher
from training.learn.recipe import Recipe


@pytest.fixture(scope="module")
def faces(tmp_path_factory: pytest.TempPathFactory) -> StoredFaces:
    folder = tmp_path_factory.mktemp("term") / "faces"
    return StoredFaces.open([stores.store(folder, ["a", "b", "c"], photos=4)])


def test_term_pulls_the_network_to_the_teachers_and_repeats_by_step(faces: StoredFaces) -> None:
    onto = principal_map(faces.vectors(np.arange(len(faces))), 8)
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=8)).eval()
    preprocessing = Preprocessing(input_size=32)
    term = TeacherTerm(faces, onto, preprocessing, batch=6, weight=1.0, seed=0)
    heavy = TeacherTerm(faces, onto, preprocessing, batch=6, weight=3.0, seed=0)
    with torch.no_grad():
        assert term(net, 3) == term(net, 3)
        assert term(net, 3) != term(net, 4)
        assert heavy(net, 3).item() == pytest.approx(3 * term(net, 3).item())
        before = sum(term(net, step).item() for step in range(4))
    optimizer = torch.optim.Adam(net.head.parameters(), lr=1e-2)
    for step in range(12):
        optimizer.zero_grad()
        term(net, step).backward()
        optimizer.step()
    with torch.no_grad():
        assert sum(term(net, step).item() for step in range(4)) < before


def test_targets_are_those_of_the_run(faces: StoredFaces, tmp_path: Path) -> None:
    onto = principal_map(faces.vectors(np.arange(len(faces))), 8)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=8, head_norm=True))
    LongRun(net, onto, Schedule(), 32, Settings()).save(tmp_path / LAST)
    (tmp_path / "left-out.txt").write_text(f"{faces.files[0]}\n")
    parser = argparse.ArgumentParser()
    add_keep_arguments(parser)
    folder = Path(str(faces.stores[0].crops[0].filename)).parent
    args = parser.parse_args([
        "--keep-run", str(tmp_path), "--keep-weight", "2", "--keep-faces", str(folder),
        "--keep-left-out", str(tmp_path / "left-out.txt"),
    ])  # fmt: skip
    term = keep_teacher(args, Preprocessing(input_size=32), Recipe(batch=80))
    assert isinstance(term, TeacherTerm)
    np.testing.assert_array_equal(term.onto, onto)
    assert len(term.faces) == term.batch == len(faces) - 1
    assert term.weight == 2
    args.keep_run = None
    assert keep_teacher(args, Preprocessing(input_size=32), Recipe(batch=8)) is None
