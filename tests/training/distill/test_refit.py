from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch.nn.functional import normalize

from model.embedding.network import Architecture, EmbeddingNet
from training.distill.loss import distillation_loss
from training.distill.refit import RIDGE, refit_head


@pytest.mark.parametrize("head_norm", [True, False])
def test_the_head_is_scikit_learns_ridge_regression(head_norm: bool) -> None:
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=24, head_norm=head_norm)).eval()
    features = torch.randn(900, 512) * torch.linspace(0.1, 3, 512) + 0.5
    targets = features @ torch.randn(512, 24) / 20 + torch.randn(900, 24) + 0.3

    refit_head(net, features, targets)

    strength = RIDGE * features.double().var(0, correction=0).mean().item() * len(features)
    oracle = Ridge(alpha=strength).fit(features.double().numpy(), targets.double().numpy())
    with torch.no_grad():
        given = net.head(features)
    expected = oracle.predict(features.numpy()) * 24**0.5
    np.testing.assert_allclose(given.numpy(), expected, atol=5e-3)


def test_a_fitted_head_gives_the_same_in_training_and_at_rest() -> None:
    """Otherwise the first step would already begin elsewhere."""
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=24, head_norm=True))
    features = torch.randn(900, 512) + 0.5
    refit_head(net, features, torch.randn(900, 24))
    with torch.no_grad():
        at_rest = net.eval().head(features)
        net.train()
        for module in net.head:
            module.momentum = 0.0
        torch.testing.assert_close(net.head(features), at_rest, rtol=1e-3, atol=1e-4)


def test_the_first_steps_of_training_do_not_write_over_the_head() -> None:
    torch.manual_seed(0)
    net = EmbeddingNet(Architecture(trunk="resnet18", dim=64, head_norm=True))
    kept = torch.randn(512, 64) / 512**0.5
    features = torch.randn(4000, 512)
    targets = normalize(features @ kept + 0.3 * torch.randn(4000, 64), dim=1)
    refit_head(net, features[:3000], targets[:3000])

    def distance() -> float:
        with torch.no_grad():
            vectors = normalize(net.eval().head(features[3000:]), dim=1)
        return 1 - (vectors * targets[3000:]).sum(1).mean().item()

    begins = distance()
    optimizer = torch.optim.AdamW(net.head.parameters())
    for step in range(60):
        optimizer.param_groups[0]["lr"] = 6e-4 * (step + 1) / 60
        rows = torch.randint(3000, (64,))
        vectors = normalize(net.train().head(features[rows]), dim=1)
        optimizer.zero_grad()
        distillation_loss(vectors, targets[rows], gram=4.0)[0].backward()
        optimizer.step()
    assert distance() < begins * 1.15
