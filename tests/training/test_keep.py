"""The term that keeps a teacher's vectors while fine-tuning."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from model.network import Architecture, EmbeddingNet
from model.preprocess import Preprocessing
from training.keep import KeepTeacher


def test_term_pulls_the_network_to_the_teacher_and_repeats_by_step() -> None:
    rng = np.random.default_rng(0)
    crops = rng.integers(0, 255, (12, 112, 112, 3), np.uint8)
    targets = torch.eye(8)[:1].expand(12, 8)
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=8))
    preprocessing = Preprocessing(input_size=32)
    term = KeepTeacher(crops, targets, preprocessing, batch=6, weight=1.0, seed=0)
    heavy = KeepTeacher(crops, targets, preprocessing, batch=6, weight=3.0, seed=0)
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
