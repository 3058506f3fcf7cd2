"""The term that keeps a teacher's vectors while fine-tuning."""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from tests.model.helpers import small_bundle
from tests.samples import collins
from tests.training.face_folders import made_up_people
from training.distill.teacher_term import TeacherTerm, add_keep_arguments, keep_teacher
from training.learn.recipe import Recipe


def test_term_pulls_the_network_to_the_teacher_and_repeats_by_step() -> None:
    rng = np.random.default_rng(0)
    crops = rng.integers(0, 255, (12, 112, 112, 3), np.uint8)
    targets = torch.eye(8)[:1].expand(12, 8)
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=8))
    preprocessing = Preprocessing(input_size=32)
    term = TeacherTerm(crops, targets, preprocessing, batch=6, weight=1.0, seed=0)
    heavy = TeacherTerm(crops, targets, preprocessing, batch=6, weight=3.0, seed=0)
    net.eval()
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


def test_faces_to_keep_come_aligned_or_as_photos(tmp_path: Path) -> None:
    small_bundle(tmp_path / "teacher")
    made_up_people(tmp_path / "aligned", people=3, photos=1)
    (tmp_path / "photos").mkdir()
    Image.fromarray(collins()).save(tmp_path / "photos" / "a.png")
    (tmp_path / "left-out.txt").write_text("aligned/p1/0.png\n")
    parser = argparse.ArgumentParser()
    add_keep_arguments(parser)
    args = parser.parse_args([
        "--keep-teacher", str(tmp_path / "teacher"), "--keep-weight", "2",
        "--keep-faces", str(tmp_path / "aligned"), "--keep-photos", str(tmp_path / "photos"),
    ])  # fmt: skip
    args.exclude, args.cache, args.dim = tmp_path / "left-out.txt", tmp_path / "cache", 64
    term = keep_teacher(args, Preprocessing(input_size=32), Recipe(batch=8))
    assert len(term.crops) == term.batch == 3
    assert term.crops.shape[1:] == (112, 112, 3)
    np.testing.assert_allclose(term.targets.norm(dim=1), 1, rtol=1e-5)
    assert term.weight == 2
    args.spare = "photos:0.999"
    spared = keep_teacher(args, Preprocessing(input_size=32), Recipe(batch=8))
    assert len(spared.crops) == 2, "the photo is left out for measuring"
    args.keep_teacher = None
    assert keep_teacher(args, Preprocessing(input_size=32), Recipe(batch=8)) is None
