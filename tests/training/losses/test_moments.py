"""Streamed statistics against the direct formula."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.training.losses.direct_pd import DirectPDLoss
from training.losses.moments import Moments, proxy_moments
from training.losses.pd import PDLoss
from training.losses.streaming import ProxyScores


@given(
    st.lists(st.lists(st.floats(-1, 1, width=32), max_size=9), min_size=1, max_size=5),
    st.floats(-100, 100),
)
@settings(deadline=None, max_examples=80)
def test_merged_moments_equal_numpy(parts: list[list[float]], shift: float) -> None:
    arrays = [np.float32(part) + np.float32(shift) for part in parts]
    merged = Moments.empty()
    for array in arrays:
        merged = merged.merge(Moments.of(torch.from_numpy(array)))
    everything = np.concatenate(arrays).astype(np.float64)
    assert merged.count.item() == len(everything)
    if len(everything):
        assert merged.mean.item() == pytest.approx(everything.mean(), rel=1e-6, abs=1e-6)
        assert merged.variance.item() == pytest.approx(everything.var(), rel=1e-4, abs=1e-9)


def test_variance_survives_a_mean_a_million_times_larger() -> None:
    values = torch.randn(1000, dtype=torch.float64) + 1e4
    stored = values.float()
    expected = stored.double().var(correction=0).item()
    assert Moments.of(stored).variance.item() == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(
    ("rows", "classes", "chunk"), [(8, 50, 7), (1, 2, 1), (5, 1, 4), (64, 300, None)]
)
@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("log", [True, False])
def test_streamed_form_equals_direct_form(
    rows: int, classes: int, chunk: int | None, narrow: bool, log: bool
) -> None:
    torch.manual_seed(rows)
    streamed = PDLoss(classes, 32, log=log)
    if narrow:  # all proxies near one another: the variance is tiny beside the squared mean
        with torch.no_grad():
            streamed.proxies.copy_(torch.ones(32) + 0.01 * torch.randn(classes, 32))
    direct = DirectPDLoss(classes, 32, log=log)
    direct.load_state_dict(streamed.state_dict())
    labels = torch.randint(classes, (rows,))
    z = torch.randn(rows, 32) + streamed.proxies.detach()[labels]
    results = []
    for loss in (streamed, direct):
        embeddings = z.clone().requires_grad_()
        value = loss(embeddings, labels)
        value.backward()
        results.append((value.detach(), embeddings.grad, loss.proxies.grad))
    for ours, theirs in zip(*results, strict=True):
        scale = max(1.0, theirs.abs().max().item())
        torch.testing.assert_close(ours / scale, theirs / scale, rtol=1e-5, atol=1e-5)
    if chunk is not None:
        whole = proxy_moments(z, streamed.proxies, ProxyScores(labels))
        pieces = proxy_moments(z, streamed.proxies, ProxyScores(labels, chunk))
        for one, many in zip(whole, pieces, strict=True):
            torch.testing.assert_close(many, one, rtol=1e-5, atol=1e-7)


def test_gradient_by_finite_differences_in_double() -> None:
    torch.manual_seed(0)
    z = torch.randn(5, 6)
    proxies = torch.randn(9, 6)
    labels = torch.tensor([0, 3, 3, 8, 1])
    weights = torch.randn(7)

    def value(z: torch.Tensor, proxies: torch.Tensor) -> torch.Tensor:
        genuine, mean, variance = proxy_moments(z, proxies, ProxyScores(labels, chunk=4))
        return genuine @ weights[:5].to(genuine) + weights[5] * mean + weights[6] * variance

    for index, tensor in enumerate((z, proxies)):
        tensor.requires_grad_()
        (grad,) = torch.autograd.grad(value(z, proxies), tensor)
        tensor.requires_grad_(False)
        for at in [(0, 0), (2, 3), (4, 5)]:
            step, kept = 1e-2, tensor[at].item()
            tensor[at] = kept + step
            above = value(z, proxies).item()
            tensor[at] = kept - step
            below = value(z, proxies).item()
            tensor[at] = kept
            assert grad[at].item() == pytest.approx((above - below) / (2 * step), abs=2e-4), index
