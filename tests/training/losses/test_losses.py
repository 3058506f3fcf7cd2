"""Every loss against its numpy oracle, and its gradient by finite differences."""

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
    ORACLES,
    batch,
    mined_pairs,
    proxies_of,
    unit,
)
from training.errors import UsageError
from training.losses import LOSSES, build


def test_there_is_an_oracle_for_every_loss() -> None:
    assert ORACLES.keys() == LOSSES.keys()


@pytest.mark.parametrize("name", LOSSES)
def test_value_and_gradient_equal_the_oracle(name: str) -> None:
    loss, embeddings, labels = batch(name)
    embeddings.requires_grad_()
    value = loss(embeddings, labels)
    value.backward()
    z, p, y = embeddings.detach().double().numpy(), proxies_of(loss), labels.numpy()
    oracle = ORACLES[name]
    # Cllr-loss is fitted to a histogram.
    assert value.item() == pytest.approx(oracle(z, p, y), rel=1e-4 if name == "cllr" else 2e-5)

    def slope(array: np.ndarray, at: tuple[int, int]) -> float:
        step, kept = 1e-6, array[at]
        array[at] = kept + step
        above = oracle(z, p, y)
        array[at] = kept - step
        below = oracle(z, p, y)
        array[at] = kept
        return (above - below) / (2 * step)

    rng = np.random.default_rng(0)
    for _ in range(12):
        at = (int(rng.integers(BATCH)), int(rng.integers(DIM)))
        # The paper of Circle treats its weights as constants, so its gradient is not that of
        # the value; it is checked separately.
        if name != "circle":
            assert embeddings.grad[at].item() == pytest.approx(slope(z, at), rel=2e-3, abs=1e-4)
        if loss.proxies is not None:
            at = (int(rng.integers(CLASSES)), int(rng.integers(DIM)))
            grad = loss.proxies.grad
            grad = grad if grad.shape == (CLASSES, DIM) else grad.T
            assert grad[at].item() == pytest.approx(slope(p, at), rel=2e-3, abs=1e-4)


def test_circle_gradient_holds_its_weights_constant() -> None:
    loss, embeddings, labels = batch("circle")
    embeddings.requires_grad_()
    loss(embeddings, labels).backward()
    z, y = embeddings.detach().double().numpy(), labels.numpy()
    pairs = mined_pairs(z, y)
    frozen = unit(z) @ unit(z).T

    def value(rows: np.ndarray) -> float:
        cosine = unit(rows) @ unit(rows).T
        total = []
        for i, (same, other) in enumerate(zip(*pairs, strict=True)):
            if same and other:
                pull = -80 * np.maximum(1.4 - frozen[i, same], 0) * (cosine[i, same] - 0.6)
                push = 80 * np.maximum(frozen[i, other] + 0.4, 0) * (cosine[i, other] - 0.4)
                total.append(np.log1p(np.exp(pull).sum() * np.exp(push).sum()))
        return float(np.mean(total))

    for at in [(0, 0), (3, 5), (11, 7)]:
        above, below = z.copy(), z.copy()
        above[at] += 1e-6
        below[at] -= 1e-6
        slope = (value(above) - value(below)) / 2e-6
        assert embeddings.grad[at].item() == pytest.approx(slope, rel=2e-3, abs=1e-4)


@given(
    name=st.sampled_from([name for name in LOSSES if not name.startswith(("pd", "d"))]),
    rows=st.integers(1, 6),
    seed=st.integers(0, 20),
)
@settings(deadline=None, max_examples=40)
def test_baselines_are_finite_in_small_batches(name: str, rows: int, seed: int) -> None:
    torch.manual_seed(seed)
    loss = build(name, 4, 4)
    embeddings = torch.randn(rows, 4, requires_grad=True)
    value = loss(embeddings, torch.randint(4, (rows,)))
    value.backward()
    assert torch.isfinite(value)
    assert torch.isfinite(embeddings.grad).all()


@pytest.mark.parametrize("name", [name for name in LOSSES if name not in ("d",)])
def test_proxies_are_parameters_and_move(name: str) -> None:
    loss, embeddings, labels = batch(name)
    if loss.samples_per_class is not None:
        assert loss.proxies is None
        assert list(loss.parameters()) == []
        return
    assert [p.data_ptr() for p in loss.parameters()] == [loss.proxies.data_ptr()]
    before = loss.proxies.detach().clone()
    optimizer = torch.optim.AdamW(loss.parameters(), lr=1e-2)
    loss(embeddings, labels).backward()
    optimizer.step()
    assert (loss.proxies - before).abs().max() > 1e-3


def test_class_means_give_proxies_their_direction_and_leave_them_their_length() -> None:
    means = torch.randn(CLASSES, DIM)
    for name in ("pd", "cllr", "proxy_nca", "proxy_anchor", "arcface"):
        loss = build(name, CLASSES, DIM)
        length = np.linalg.norm(proxies_of(loss), axis=1).mean()
        loss.start_from(means)
        np.testing.assert_allclose(proxies_of(loss), length * unit(means.numpy()), rtol=1e-5)
    with pytest.raises(ValueError, match="no proxies"):
        build("circle", CLASSES, DIM).start_from(means)


def test_all_proxies_start_at_the_same_length() -> None:
    torch.manual_seed(0)
    for name in LOSSES:
        loss = build(name, 50, 512)
        if loss.proxies is not None:
            rows = loss.proxies if loss.proxies.shape == (50, 512) else loss.proxies.T
            torch.testing.assert_close(
                rows.norm(dim=1), torch.full((50,), 2**0.5), rtol=0.1, atol=0
            )


def test_unknown_names_suggest_the_right_one() -> None:
    with pytest.raises(ValueError, match="did you mean 'proxy_anchor'"):
        build("proxyanchor", 3, 4)
    with pytest.raises(ValueError, match="did you mean 'temperature'"):
        build("pd", 3, 4, temprature=1)
    with pytest.raises(ValueError, match="must be positive"):
        build("pd", 3, 4, temperature=0)
    with pytest.raises(ValueError, match="did you mean 'mining_margin'"):
        build("circle", 3, 4, minig_margin=0.2)


@pytest.mark.parametrize("epsilon", [0, -1e-6])
def test_epsilon_that_would_give_nan_is_refused(epsilon: float) -> None:
    with pytest.raises(UsageError, match=r"epsilon is .* must be positive"):
        build("pd", 3, 4, epsilon=epsilon)


@pytest.mark.parametrize("name", ["multi_similarity", "circle"])
def test_mining_margin_is_no_epsilon(name: str) -> None:
    """One option for several losses must not mean a stabiliser here and a margin there."""
    with pytest.raises(UsageError, match=r"no option of .* 'epsilon'"):
        build(name, 3, 4, epsilon=1e-2)
    assert build(name, 3, 4, mining_margin=0.3).miner.epsilon == 0.3
