"""Does a loss whose prior is the false-match rate one wants miss fewer genuine pairs at that rate?

Heads on the frozen trunk of a bundle are trained with one loss each beside the distillation term.
All start from the same head, the least-squares fit to the teachers, and see the same batches. Each
loss is weighed so that, at the start, its gradient at the embedding is as long as that of the
distillation term. The results are misses on held-out people.
"""

from __future__ import annotations

import copy
import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from model.bundle import Bundle
from training.distill.loss import distillation_loss
from training.distill.refit import refit_head
from training.distill.stored_faces import StoredFaces, split
from training.distill.targets import principal_map, targets
from training.errors import UsageError
from training.inputs.features import cached_features, frozen_trunk
from training.learn.sampling import epoch_batches
from training.losses import MetricLoss, build
from training.measure.metrics import Measured, measure

LOSSES: dict[str, tuple[str, dict[str, float]] | None] = {
    "none": None,
    "pd": ("pd", {}),
    "arcface": ("arcface", {}),
    "multi_similarity": ("multi_similarity", {}),
    "cllr, prior 0.02": ("cllr", {}),
    "cllr, prior 1e-3": ("cllr", {"prior": 1e-3}),
    "cllr, prior 1e-4": ("cllr", {"prior": 1e-4}),
}
RATES = {"fnmr@0.001": "cllr, prior 1e-3", "fnmr@0.0001": "cllr, prior 1e-4"}
"""The endpoints, and the loss whose prior is that rate."""

BATCH, PER_PERSON, PROBES = 128, 4, 20
LR, PROXY_RATE, WEIGHT_DECAY, CLIP = 3e-4, 10.0, 0.02, 1.0
REPLICATES = 1000
"""Bootstrap samples over the held-out people."""


@dataclass(frozen=True)
class Faces:
    """Trunk features of faces, with labels.

    Attributes:
        features: ``(1 or 2, N, W)``, of the crops, and of their mirror images if to learn from.
        labels: int64 ``(N,)``.
        wanted: Targets of the distillation, ``(N, D)``; empty for faces to measure on.
    """

    features: Tensor
    labels: np.ndarray
    wanted: Tensor


@dataclass(frozen=True)
class Start:
    """The common start of all runs.

    Attributes:
        learnt: Faces to learn from.
        held: Faces of held-out people.
        head: The head that fits the teachers best.
    """

    learnt: Faces
    held: Faces
    head: nn.Module

    def batches(self, seed: int, epoch: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Features, labels and targets; mirrored half of the time."""
        rng = np.random.default_rng((seed, epoch, 1))
        for rows in epoch_batches(self.learnt.labels, BATCH, PER_PERSON, seed, epoch):
            side = torch.from_numpy(rng.integers(2, size=len(rows)))
            labels = torch.from_numpy(self.learnt.labels[rows])
            yield self.learnt.features[side, rows], labels, self.learnt.wanted[rows]

    def loss(self, name: str, seed: int) -> MetricLoss | None:
        """A loss with its proxies, if any, at the class means."""
        chosen = LOSSES[name]
        if chosen is None:
            return None
        torch.manual_seed(seed)
        people = int(self.learnt.labels.max()) + 1
        loss = build(chosen[0], people, self.learnt.wanted.shape[1], **chosen[1])
        if loss.proxies is not None:
            vectors = embedded(self.head, self.learnt.features[0])
            sums = torch.zeros(people, vectors.shape[1])
            loss.start_from(sums.index_add_(0, torch.from_numpy(self.learnt.labels), vectors))
        return loss

    def weight(self, loss: MetricLoss, seed: int) -> float:
        """Ratio of the gradients at the embedding: the distillation term's to the loss's."""
        norms = []
        for features, labels, wanted in list(self.batches(seed, 0))[:PROBES]:
            vectors = embedded(self.head, features).requires_grad_()
            terms = distillation_loss(vectors, wanted)[0], loss(vectors, labels)
            norms.append([float(torch.autograd.grad(t, vectors)[0].norm()) for t in terms])
        teacher, metric = np.mean(norms, axis=0)
        return float(teacher / metric)


def prepare_start(learn: list[Path], further: list[Path], init: str, cache: Path) -> Start:
    """Features of all faces, and the head; ``further`` are stores to measure on only."""
    learnt = split(StoredFaces.open(learn), frozenset())[0]
    held = split(StoredFaces.open([*learn, *further]), frozenset())[1]
    if not (len(learnt) and len(held)):
        raise UsageError("Give stores of named people, some hundreds: a few are held out.")
    bundle = Bundle.load(init)
    trunk, net = frozen_trunk("", init), bundle.network()
    vectors = learnt.vectors(np.arange(len(learnt)))
    wanted = torch.from_numpy(targets(vectors, principal_map(vectors, net.architecture.dim)))

    def features(faces: StoredFaces, mirrored: bool) -> np.ndarray:
        names = "\n".join([*faces.files, *(["mirrored"] if mirrored else [])])
        crops = faces.crops(np.arange(len(faces)))[:, :, :: -1 if mirrored else 1]
        key = hashlib.sha256(names.encode()).hexdigest()[:20]
        return cached_features(trunk, crops, key, bundle.preprocessing, cache, "bf16")

    both = torch.from_numpy(np.stack([features(learnt, side) for side in (False, True)]))
    refit_head(net, both[0], wanted)
    return Start(
        Faces(both, _numbers(learnt), wanted),
        Faces(torch.from_numpy(features(held, False)[None]), _numbers(held), torch.empty(0)),
        net.head.eval(),
    )


def _numbers(faces: StoredFaces) -> np.ndarray:
    return np.unique(faces.people, return_inverse=True)[1]


@torch.no_grad()
def embedded(head: nn.Module, features: Tensor) -> Tensor:
    return F.normalize(head(features), dim=1)


def train(start: Start, name: str, seed: int, epochs: int) -> tuple[nn.Module, float]:
    """Train a head.

    Returns:
        The head, and the weight of the loss (0 without one).
    """
    loss, head = start.loss(name, seed), copy.deepcopy(start.head)
    weight = 0.0 if loss is None else start.weight(loss, seed)
    groups = [{"params": list(head.parameters()), "lr": LR}]
    if loss is not None and loss.proxies is not None:
        groups.append({"params": [loss.proxies], "lr": LR * PROXY_RATE, "weight_decay": 0.0})
    optimizer = torch.optim.AdamW(groups, weight_decay=WEIGHT_DECAY)
    total = epochs * max(1, len(start.learnt.labels) // BATCH)
    falling = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: 0.5 * (1 + math.cos(math.pi * step / total))
    )
    for epoch in range(epochs):
        for features, labels, wanted in start.batches(seed, epoch):
            vectors = F.normalize(head(features), dim=1)
            cost = distillation_loss(vectors, wanted)[0]
            if loss is not None:
                cost = cost + weight * loss(vectors, labels)
            optimizer.zero_grad()
            cost.backward()
            nn.utils.clip_grad_norm_(head.parameters(), CLIP)
            optimizer.step()
            falling.step()
    return head, weight


def measured(start: Start, head: nn.Module) -> Measured:
    vectors = embedded(head, start.held.features[0]).numpy()
    return measure(vectors, start.held.labels, REPLICATES, seed=0)


def difference(
    ours: list[Measured], others: list[Measured], rate: str
) -> tuple[float, float, float]:
    """Mean difference of a rate, with its 95% interval over people and seeds."""
    rng = np.random.default_rng(0)
    values, draws = [], []
    for runs in (ours, others):
        table = np.stack([run.draws[rate] for run in runs])
        seeds = rng.integers(len(runs), size=(len(runs), table.shape[1]))
        draws.append(np.take_along_axis(table, seeds, 0).mean(0))
        values.append(np.mean([run.values[rate] for run in runs]))
    low, high = np.percentile(draws[0] - draws[1], [2.5, 97.5])
    return float(values[0] - values[1]), float(low), float(high)


def report(start: Start, results: dict[str, list[Measured]], weights: dict[str, float]) -> str:
    """The results as a table in Markdown."""
    counts = results["none"][0].counts
    people = int(start.learnt.labels.max()) + 1
    lines = [
        f"{len(start.learnt.labels):,} faces of {people:,} people to learn from; measured on "
        f"{counts['n']:,} faces of {counts['classes']:,} others; mean of {len(results['pd'])} "
        "seeds; in brackets the loss whose prior is the rate minus this one, in points, 95% "
        "interval over people and seeds.", "",
        "| loss | weight | d' | " + " | ".join(f"FNMR at FMR {r.split('@')[1]}" for r in RATES)
        + " |", "|---|---|---|" + "---|" * len(RATES),
    ]  # fmt: skip
    for name, runs in results.items():
        d_prime = np.mean([run.values["d_prime"] for run in runs])
        cells = [f"{weights.get(name, 0):.3g}", f"{d_prime:.2f}"]
        for rate, ours in RATES.items():
            value = np.mean([run.values[rate] for run in runs])
            gap = ""
            if name not in (ours, "start"):
                change = (100 * part for part in difference(results[ours], runs, rate))
                gap = " ({:+.2f}, {:+.2f} to {:+.2f})".format(*change)
            cells.append(f"{value:.2%}{gap}")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def run(start: Start, out: Path, seeds: int, epochs: int) -> None:
    """Train and measure all losses; write ``table.md``."""
    results = {"start": [measured(start, start.head)]}
    if None in (results["start"][0].values[rate] for rate in RATES):
        raise UsageError(
            "The held-out people are too few to measure these rates; give more stores."
        )
    weights: dict[str, float] = {}
    for name in LOSSES:
        results[name] = []
        for seed in range(seeds):
            head, weights[name] = train(start, name, seed, epochs)
            results[name].append(measured(start, head))
            print(name, seed, results[name][-1].values, flush=True)
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text(report(start, results, weights))
