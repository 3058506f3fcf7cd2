"""Every loss in numpy, written from its formula, and a batch to hold it against."""

from __future__ import annotations

import numpy as np
import torch
from scipy.optimize import minimize

from training.losses import build

CLASSES, DIM, BATCH = 6, 8, 12


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def pd_statistics(z: np.ndarray, p: np.ndarray, y: np.ndarray, tau: float) -> tuple[float, float]:
    genuine, impostor = [], []
    for zi, yi in zip(unit(z), y, strict=True):
        for c, pc in enumerate(unit(p)):
            (genuine if c == yi else impostor).append(float(zi @ pc) / tau)
    return np.mean(genuine) - np.mean(impostor), np.var(genuine) + np.var(impostor)


def pd_oracle(
    z: np.ndarray, p: np.ndarray, y: np.ndarray, tau: float = 1.0, epsilon: float = 1e-6
) -> float:
    margin, variance = pd_statistics(z, p, y, tau)
    return -np.log(margin + epsilon) + 0.5 * np.log(variance + epsilon)


def pd_scheduled_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    """At the beginning of a run."""
    return pd_oracle(z, p, y, epsilon=1e-1)


def cllr_oracle(
    z: np.ndarray, p: np.ndarray, y: np.ndarray, prior: float = 0.02, cap: float = 16.0
) -> float:
    """Cost of the best calibration, found by a general minimiser."""
    cosine = unit(z) @ unit(p).T
    own = np.eye(len(p), dtype=bool)[y]
    odds = np.log(prior / (1 - prior))

    def cost(at: np.ndarray) -> float:
        logits = at[0] * cosine + at[1] + odds
        genuine = np.logaddexp(0, -logits[own]).mean()
        return prior * genuine + (1 - prior) * np.logaddexp(0, logits[~own]).mean()

    best = minimize(cost, (4.0, 0.0), bounds=[(1, cap), (None, None)], tol=1e-14)
    return best.fun / -(prior * np.log(prior) + (1 - prior) * np.log(1 - prior))


def pd_nolog_oracle(z: np.ndarray, p: np.ndarray, y: np.ndarray) -> float:
    margin, variance = pd_statistics(z, p, y, 1.0)
    return np.sqrt(variance + 1e-6) / (margin + 1e-6)


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
        pull = np.log1p(np.exp(-2 * (cosine[i, same] - 0.5)).sum()) / 2
        push = np.log1p(np.exp(50 * (cosine[i, other] - 0.5)).sum()) / 50
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
    "pd_scheduled": pd_scheduled_oracle,
    "cllr": cllr_oracle,
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
