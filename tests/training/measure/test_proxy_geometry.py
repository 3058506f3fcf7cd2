"""Proxy geometry against figures worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from training.measure.proxy_geometry import proxy_geometry


def test_similarities_and_share_in_the_span() -> None:
    proxies = torch.tensor([[2.0, 0, 0], [0, 5.0, 0]])
    embeddings = torch.tensor([[0.6, 0, 0.8], [0, 0.8, 0.6], [0.6, 0.8, 0]])
    found = proxy_geometry(embeddings, torch.tensor([0, 1, 0]), proxies)
    assert found["own_proxy"] == pytest.approx((0.6 + 0.8 + 0.6) / 3)
    assert found["other_proxies"] == pytest.approx(0.8 / 3)
    assert found["in_span"] == pytest.approx((0.36 + 0.64 + 1) / 3)
    genuine, impostor = 2 * 0.2**2 / 9, 2 * 0.8**2 / 9
    expected = (2.0 - 0.8) / 3 / math.sqrt((genuine + impostor) / 2)
    assert found["proxy_d_prime"] == pytest.approx(expected, rel=1e-5)
