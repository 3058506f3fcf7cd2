"""Every loss against numpy written from the formulas, and its gradient by finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from training.losses import LOSSES, build
from training.losses.base import inverse_margin, minus_log

CLASSES, DIM, BATCH = 6, 8, 12


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pd_statistics(z: np.ndarray, p: np.ndarray, y: np.ndarray, tau: float) -> tuple[float, float]:
    genuine, impostor = [], []
    for zi, yi in zip(unit(z), y, strict=True):
        for c, pc in enumerate(unit(p)):
            (genuine if c == yi else impostor).append(float(zi @ pc) / tau)
    return np.mean(genuine) - np.mean(impostor), np.var(genuine) + np.var(impostor)


def pd_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray, tau: float = 1.0) -> float:
    margin, variance = pd_statistics(z, p, y, tau)
    return -np.log(margin + 1e-6) + 0.5 * np.log(variance + 1e-6)


def pd_nolog_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    margin, variance = pd_statistics(z, p, y, 1.0)
    return np.sqrt(variance + 1e-6) / (margin + 1e-6)


def pd_one_sided_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    cosine = unit(z) @ unit(p).T
    own = np.eye(len(p), dtype=bool)[y]
    genuine, impostor = cosine[own], cosine[~own]
    low = np.minimum(genuine - genuine.mean(), 0)
    high = np.maximum(impostor - impostor.mean(), 0)
    margin = genuine.mean() - impostor.mean()
    return -np.log(margin + 1e-6) + 0.5 * np.log(np.mean(low**2) + np.mean(high**2) + 1e-6)


def d_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    genuine, impostor = [], []
    for i in range(len(z)):
        for j in range(i):
            (genuine if y[i] == y[j] else impostor).append(float(unit(z)[i] @ unit(z)[j]))
    spread = np.sqrt((np.var(genuine) + np.var(impostor)) / 2)
    return spread / (abs(np.mean(impostor) - np.mean(genuine)) + 1e-6)


def proxy_nca_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    distance = ((unit(z)[:, None] - unit(p)[None]) ** 2).sum(2)
    weight = np.exp(-9 * distance)
    return float(np.mean(-np.log(weight[np.arange(len(y)), y] / weight.sum(1))))


def proxy_anchor_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    cosine = unit(z) @ unit(p).T
    positive = negative = 0.0
    for c in range(len(p)):
        if (y == c).any():
            positive += np.log1p(np.exp(-32 * (cosine[y == c, c] - 0.1)).sum())
        negative += np.log1p(np.exp(32 * (cosine[y != c, c] + 0.1)).sum())
    return positive / len(set(y)) + negative / len(p)


def mined_pairs(z: np.ndarray, y: np.ndarray) -> tuple[list[list[int]], list[list[int]]]:
    """Positives below the hardest negative plus 0.1, negatives above the hardest positive less."""
    cosine = unit(z) @ unit(z).T
    positives, negatives = [], []
    for i in range(len(z)):
        same = [j for j in range(len(z)) if y[j] == y[i] and j != i]
        other = [j for j in range(len(z)) if y[j] != y[i]]
        ok = bool(same) and bool(other)
        highest = max(cosine[i, other]) if ok else 0
        lowest = min(cosine[i, same]) if ok else 0
        positives.append([j for j in same if ok and cosine[i, j] - 0.1 < highest])
        negatives.append([j for j in other if ok and cosine[i, j] + 0.1 > lowest])
    return positives, negatives


def multi_similarity_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    cosine = unit(z) @ unit(z).T
    total = []
    for i, (same, other) in enumerate(zip(*mined_pairs(z, y), strict=True)):
        pull = np.log1p(np.exp(-2 * (cosine[i, same] - 1)).sum()) / 2
        push = np.log1p(np.exp(50 * (cosine[i, other] - 1)).sum()) / 50
        total.append(pull + push)
    return float(np.mean(total))


def circle_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    cosine = unit(z) @ unit(z).T
    total = []
    for i, (same, other) in enumerate(zip(*mined_pairs(z, y), strict=True)):
        if same and other:
            sp, sn = cosine[i, same], cosine[i, other]
            pull = np.exp(-80 * np.maximum(1.4 - sp, 0) * (sp - 0.6)).sum()
            push = np.exp(80 * np.maximum(sn + 0.4, 0) * (sn - 0.4)).sum()
            total.append(np.log1p(pull * push))
    return float(np.mean(total))


def arcface_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    cosine = unit(z) @ unit(p).T
    rows = np.arange(len(y))
    angle = np.arccos(cosine[rows, y])
    assert (angle + 0.5 < np.pi).all()
    cosine[rows, y] = np.cos(angle + 0.5)
    logits = 64 * cosine
    shifted = logits - logits.max(1, keepdims=True)
    return float(np.mean(np.log(np.exp(shifted).sum(1)) - shifted[rows, y]))


ORACLES = {
    "pd": pd_oracle,
    "pd_nolog": pd_nolog_oracle,
    "pd_one_sided": pd_one_sided_oracle,
    "d": d_oracle,
    "proxy_nca": proxy_nca_oracle,
    "proxy_anchor": proxy_anchor_oracle,
    "multi_similarity": multi_similarity_oracle,
    "circle": circle_oracle,
    "arcface": arcface_oracle,
}


def batch(name: str, seed: int = 0) -> tuple[torch.nn.Module, torch.Tensor, torch.Tensor]:
    """A loss and a batch in which genuine pairs are somewhat closer than impostors."""
    torch.manual_seed(seed)
    loss = build(name, CLASSES, DIM)
    labels = torch.arange(BATCH) % (CLASSES - 1)
    centres = torch.randn(CLASSES, DIM)
    loss.start_from(centres + torch.randn(CLASSES, DIM)) if loss.proxies is not None else None
    embeddings = centres[labels] + 0.8 * torch.randn(BATCH, DIM)
    return loss, embeddings, labels


def proxies_of(loss: torch.nn.Module) -> np.ndarray:
    if loss.proxies is None:
        return np.zeros((CLASSES, DIM))
    values = loss.proxies.detach().double().numpy()
    return values if values.shape == (CLASSES, DIM) else values.T


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
    assert value.item() == pytest.approx(oracle(z, p, y), rel=2e-5)

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
    for epsilon in (0.0, 1e-2):
        loss = build("pd", CLASSES, CLASSES + 1, epsilon=epsilon)
        loss.start_from(torch.from_numpy(proxies))
        values[epsilon] = [
            loss(torch.from_numpy(z), torch.from_numpy(labels)).item() for z in (inside, mixed)
        ]
    assert values[0.0][0] == pytest.approx(values[0.0][1], abs=1e-4)
    assert values[1e-2][0] < values[1e-2][1] - 1e-3


def test_temperature_cancels_without_epsilon_and_nearly_with_it() -> None:
    values, exact = [], []
    for tau in (0.1, 0.5, 1.0):
        _, embeddings, labels = batch("pd")
        for epsilon, into in ((1e-6, values), (0.0, exact)):
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
    name=st.sampled_from(["pd", "pd_nolog", "pd_one_sided", "d"]),
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


def test_pd_descends_from_a_start_where_impostors_are_closer() -> None:
    torch.manual_seed(0)
    loss = build("pd", 4, 8)
    embeddings = torch.nn.Parameter(-loss.proxies.detach().repeat(3, 1))
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


def test_class_means_become_unit_proxies_of_every_proxy_loss() -> None:
    means = torch.randn(CLASSES, DIM)
    for name in ("pd", "proxy_nca", "proxy_anchor", "arcface"):
        loss = build(name, CLASSES, DIM)
        loss.start_from(means)
        np.testing.assert_allclose(proxies_of(loss), unit(means.numpy()), atol=1e-6)
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
