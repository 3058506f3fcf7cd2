"""PD-Loss and its kin: temperature, span of the proxies, hard starts, always finite."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.losses.loss_oracles import (
    BATCH,
    CLASSES,
    DIM,
    batch,
    pd_oracle,
    pd_statistics,
    proxies_of,
    unit,
)
from training.losses import build
from training.losses.base import inverse_margin, minus_log


@pytest.mark.parametrize("tau", [0.1, 0.5, 1.0])
def test_pd_with_temperature_is_equation_six(tau: float) -> None:
    torch.manual_seed(1)
    _, embeddings, labels = batch("pd")
    loss = build("pd", CLASSES, DIM, temperature=tau)
    loss.start_from(embeddings[:CLASSES] + 0.1)
    expected = pd_oracle(embeddings.double().numpy(), proxies_of(loss), labels.numpy(), tau)
    assert loss(embeddings, labels).item() == pytest.approx(expected, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize("share", [0.9, 0.3])
def test_pd_sees_what_is_outside_the_span_of_the_proxies_only_with_epsilon(share: float) -> None:
    """Such a part shrinks all similarities by one factor, which the ratio of Eq. 6 cancels."""
    rng = np.random.default_rng(3)
    labels = np.arange(BATCH) % CLASSES
    proxies = np.eye(CLASSES, CLASSES + 1)
    inside = unit(
        proxies[labels] + 0.1 * rng.normal(size=(BATCH, CLASSES + 1)) @ proxies.T @ proxies
    )
    outside = np.eye(CLASSES + 1)[-1]
    mixed = share * inside + np.sqrt(1 - share**2) * outside
    values = {}
    for epsilon in (1e-12, 1e-2):
        loss = build("pd", CLASSES, CLASSES + 1, epsilon=epsilon)
        loss.start_from(torch.from_numpy(proxies))
        values[epsilon] = [
            loss(torch.from_numpy(z), torch.from_numpy(labels)).item() for z in (inside, mixed)
        ]
    assert values[1e-12][0] == pytest.approx(values[1e-12][1], abs=1e-4)
    assert values[1e-2][0] < values[1e-2][1] - 1e-3


def test_temperature_cancels_without_epsilon_and_nearly_with_it() -> None:
    values, exact = [], []
    for tau in (0.1, 0.5, 1.0):
        _, embeddings, labels = batch("pd")
        for epsilon, into in ((1e-6, values), (1e-12, exact)):
            torch.manual_seed(7)
            loss = build("pd", CLASSES, DIM, temperature=tau, epsilon=epsilon)
            z = embeddings.clone().requires_grad_()
            value = loss(z, labels)
            value.backward()
            into.append(torch.cat([value.detach()[None], z.grad.flatten()]))
    for other in exact[1:]:
        torch.testing.assert_close(other, exact[0], rtol=1e-4, atol=1e-6)
    for other in values[1:]:
        torch.testing.assert_close(other, values[0], rtol=1e-3, atol=1e-4)


@given(
    rows=st.integers(1, 6),
    classes=st.integers(1, 5),
    kind=st.sampled_from(["random", "collapsed", "opposite", "zero", "huge"]),
    name=st.sampled_from(["pd", "pd_nolog", "d"]),
    bf16=st.booleans(),
    seed=st.integers(0, 99),
)
@settings(deadline=None, max_examples=150)
def test_decidability_losses_are_always_finite(
    rows: int, classes: int, kind: str, name: str, bf16: bool, seed: int
) -> None:
    torch.manual_seed(seed)
    loss = build(name, classes, 4)
    labels = torch.randint(classes, (rows,))
    weight = torch.randn(4, 4, requires_grad=True)
    inputs = torch.randn(rows, 4)
    if kind == "collapsed":
        inputs = inputs[:1].expand(rows, 4)
    elif kind == "zero":
        inputs = torch.zeros(rows, 4)
    elif kind == "huge":
        inputs = inputs * 1e6
    elif kind == "opposite" and loss.proxies is not None:
        inputs = -loss.proxies.detach()[labels]
    with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
        embeddings = inputs @ (torch.eye(4) if kind == "opposite" else weight)
        if kind == "opposite":
            embeddings = embeddings.float().requires_grad_()
        value = loss(embeddings, labels)
    value.backward()
    assert value.dtype == torch.float32
    assert torch.isfinite(value)
    for tensor in (embeddings if kind == "opposite" else weight, loss.proxies):
        if tensor is not None and tensor.grad is not None:
            assert torch.isfinite(tensor.grad).all()


def test_pd_descends_from_a_start_where_impostors_are_closer() -> None:
    torch.manual_seed(0)
    loss = build("pd", 4, 8)
    # Exactly opposite is a saddle point, and rounding would decide where it is left.
    start = 0.05 * torch.randn(12, 8) - loss.proxies.detach().repeat(3, 1)
    embeddings = torch.nn.Parameter(start)
    labels = torch.arange(12) % 4
    optimizer = torch.optim.Adam([embeddings, loss.proxies], lr=0.05)
    assert (
        pd_statistics(*(t.detach().numpy() for t in (embeddings, loss.proxies, labels)), 1)[0] < 0
    )
    for _ in range(100):
        optimizer.zero_grad()
        loss(embeddings, labels).backward()
        optimizer.step()
    margin, variance = pd_statistics(
        *(t.detach().numpy() for t in (embeddings, loss.proxies, labels)), 1
    )
    assert margin / np.sqrt(variance / 2) > 3


@pytest.mark.parametrize("function", [minus_log, inverse_margin])
def test_continuation_is_smooth_and_falls(function: object) -> None:
    margin = torch.linspace(-2, 2, 4001, dtype=torch.float64, requires_grad=True)
    value = function(margin, 0.01)
    (slope,) = torch.autograd.grad(value.sum(), margin)
    assert (slope < 0).all()
    near = torch.tensor([0.01 - 1e-9, 0.01 + 1e-9], dtype=torch.float64, requires_grad=True)
    sides = function(near, 0.01)
    (slopes,) = torch.autograd.grad(sides.sum(), near)
    assert sides[0].item() == pytest.approx(sides[1].item(), rel=1e-6)
    assert slopes[0].item() == pytest.approx(slopes[1].item(), rel=1e-6)
