"""A training job small enough to run in a test."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from training.inputs.sources import Features, Head
from training.learn import distributed
from training.learn.inference import embed
from training.learn.loop import Job
from training.learn.recipe import Recipe
from training.losses import build
from training.measure import metrics
from training.measure.retrieval import recall


def blobs(classes: int = 8, each: int = 12, width: int = 24) -> tuple[np.ndarray, np.ndarray]:
    """Classes that differ in a few of many noisy features."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(classes), each)
    values = 3 * rng.normal(size=(len(labels), width))
    values[:, :6] = rng.normal(size=(classes, 6))[labels] + 0.3 * rng.normal(size=(len(labels), 6))
    return values.astype(np.float32), labels


def make_job(
    out: Path, loss: str = "pd", norm: bool = False, shard: bool = False, **changes: object
) -> Job:
    """A head on features; with ``norm``, behind a batch norm that measures as it trains."""
    settings = {"epochs": 6, "batch": 16, "lr": 1e-2, "proxy_lr": 5.0, **changes}
    features, labels = blobs()
    torch.manual_seed(0)
    net = Head(features.shape[1], 16)
    if norm:
        net = torch.nn.Sequential(torch.nn.BatchNorm1d(features.shape[1]), net)
    source = Features(features)

    def evaluate(net: torch.nn.Module) -> dict[str, float]:
        vectors = embed(net, source, np.arange(len(labels)))
        sample = metrics.pair_scores(vectors, labels)
        return {
            "R@1": recall(vectors, labels).values[1],
            "d_prime": metrics.d_prime(sample),
        }

    criterion = build(loss, 8, 16, **({"shard": distributed.shard()} if shard else {}))
    job = Job(net, criterion, source, labels, Recipe(**settings), out, evaluate)
    job.progress = False
    job.evaluate_every = 3
    return job
