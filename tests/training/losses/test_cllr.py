"""Cllr-loss: its fit and its operating point."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy.special import expit

from tests.training.losses.loss_oracles import CLASSES, DIM, batch, cllr_oracle, proxies_of
from training.errors import UsageError
from training.losses import CllrLoss, PDLoss


@pytest.mark.parametrize("prior", [0.5, 0.02, 1e-4])
@pytest.mark.parametrize("cap", [2.0, 64.0])
def test_cost_is_that_of_the_best_calibration(prior: float, cap: float) -> None:
    _, embeddings, labels = batch("cllr", seed=2)
    loss = CllrLoss(CLASSES, DIM, prior=prior, cap=cap)
    loss.start_from(embeddings[:CLASSES] + torch.randn(CLASSES, DIM))
    expected = cllr_oracle(
        embeddings.double().numpy(), proxies_of(loss), labels.numpy(), prior, cap
    )
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-4)


def test_scores_that_say_nothing_cost_about_one_and_those_that_decide_nothing() -> None:
    decisive, plain = CllrLoss(CLASSES, CLASSES, cap=1e3), CllrLoss(CLASSES, CLASSES)
    for loss in (decisive, plain):
        loss.start_from(torch.eye(CLASSES))
    labels = torch.arange(CLASSES)
    assert decisive(torch.eye(CLASSES), labels).item() < 1e-3
    assert plain(torch.ones(CLASSES, CLASSES), labels).item() == pytest.approx(1, abs=1e-4)


def test_cost_falls_as_equal_gaussians_move_apart() -> None:
    """Their d' is all there is to them."""
    rng = np.random.default_rng(0)
    loss = CllrLoss(2, 2, cap=1e4)
    noise = 0.02 * rng.normal(size=400)
    targets = np.tile([1.0, 0.0], 200)
    weights = np.tile([0.02 / 200, 0.98 / 200], 200)
    costs = []
    for gap in (0.0, 0.02, 0.04):
        scores = noise + gap * targets
        slope, shift = loss.fit(scores, targets, weights)
        logits = slope * scores + shift
        costs.append(weights @ np.logaddexp(0, logits * (1 - 2 * targets)))
    assert costs[0] > 1.05 * costs[1] > 1.3 * costs[2]


def test_a_smaller_prior_weighs_the_hardest_impostors_more() -> None:
    rng, shares = np.random.default_rng(0), []
    for prior in (0.5, 0.001):
        loss = CllrLoss(50, 16, prior=prior, cap=30)
        targets = np.tile(np.eye(50), (2, 1))[:64].flatten()
        scores = 0.2 * rng.normal(size=64 * 50) + 0.5 * targets
        weights = np.where(targets == 1, prior / 64, (1 - prior) / (64 * 49))
        slope, shift = loss.fit(scores, targets, weights)
        push = np.sort(expit(slope * scores + shift)[targets == 0])
        shares.append(push[-32:].sum() / push.sum())
    assert shares[1] > 1.5 * shares[0]


def test_options_out_of_range_are_refused() -> None:
    for options in ({"prior": 0.0}, {"prior": 1.0}, {"cap": 1.0}):
        with pytest.raises(UsageError):
            CllrLoss(3, 4, **options)
    with pytest.raises(ValueError, match="labels go from"):
        CllrLoss(3, 4)(torch.randn(2, 4), torch.tensor([0, 3]))


def test_epsilon_of_pd_goes_where_it_is_told_as_the_run_goes_on() -> None:
    _, embeddings, labels = batch("pd")
    scheduled = PDLoss(CLASSES, DIM, epsilon=1e-1, last_epsilon=1e-3)
    for progress, epsilon in ((0.0, 1e-1), (0.5, 1e-2), (1.0, 1e-3)):
        plain = PDLoss(CLASSES, DIM, epsilon=epsilon)
        plain.load_state_dict(scheduled.state_dict())
        scheduled.progress = progress
        assert scheduled(embeddings, labels).item() == pytest.approx(
            plain(embeddings, labels).item(), rel=1e-6
        )
