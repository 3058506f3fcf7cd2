"""Distillation: what a student, a teacher's vectors and a recipe do in one step.

The teacher's unit vectors are lifted into the student's space by a fixed matrix with
orthonormal columns, so the student's embedding itself, not a map of it, takes on the
teacher's similarities: 1 - cosine to the lifted target, plus the squared difference of the two
batch Gram matrices.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from model.embedding.network import EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.errors import FaceError
from training.errors import UsageError
from training.inputs.augment import Augment
from training.learn import checkpoint, distributed
from training.learn.ema import EMA
from training.learn.freezing import frozen_stages, keep_statistics


@dataclass(frozen=True)
class DistillationRecipe:
    """Everything that decides the result; stored in every checkpoint.

    Attributes:
        stages: ``(input size, images seen)`` in order.
        batch: Images per step.
        lr: Peak learning rate of AdamW.
        weight_decay: Decoupled weight decay.
        warmup: Steps of linear warm-up.
        decay: Share of all steps, at the end, over which the rate falls to zero.
        clip: Largest gradient norm.
        gram: Weight of the Gram term.
        ema: Decay of the averaged weights.
        settle: Share of all steps, at the end, in which batch norm keeps the statistics gathered
            so far. They begin from the averaged weights, so that the network that is trained is
            the one that will be served: a feature of few faces cannot be tamed by the batch it
            happens to be in.
        freeze: The last stage of the trunk that stays as it is, with all before it; empty trains
            everything.
        seed: Fixes order, augmentation and fresh weights.
    """

    stages: tuple[tuple[int, int], ...] = ((64, 300_000), (96, 60_000))
    batch: int = 64
    lr: float = 1e-3
    weight_decay: float = 0.02
    warmup: int = 60
    decay: float = 0.6
    clip: float = 1.0
    gram: float = 4.0
    ema: float = 0.999
    settle: float = 0.0
    freeze: str = ""
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch < 2:
            raise UsageError(f"batch is {self.batch}; batch norm needs two images or more")
        if not 0 <= self.settle < 1:
            raise UsageError(f"settle is {self.settle}; it must be 0 or more and below 1")
        if not 0 <= self.decay <= 1:
            raise UsageError(f"decay is {self.decay}; it must be from 0 to 1")
        if not 0 < self.lr < math.inf:
            raise UsageError(f"lr is {self.lr}; it must be above 0")
        if self.seed < 0:
            raise UsageError(f"seed is {self.seed}; it must be 0 or more")
        if min(images for _, images in self.stages) < self.batch:
            raise UsageError(f"every stage must see a batch of {self.batch} images or more")

    @property
    def steps(self) -> int:
        return sum(images // self.batch for _, images in self.stages)

    @property
    def settles_at(self) -> int:
        """The step from which batch norm keeps its statistics."""
        return self.steps - round(self.steps * self.settle)

    def size_at(self, step: int) -> int:
        """Input size at a step."""
        for size, images in self.stages:
            step -= images // self.batch
            if step < 0:
                return size
        return self.stages[-1][0]

    def lr_at(self, step: int) -> float:
        """Warm up, stay, then fall to zero along a half cosine."""
        falling = max(1, round(self.steps * self.decay))
        into = max(0, step - (self.steps - falling)) / falling
        return self.lr * min(1.0, (step + 1) / self.warmup) * 0.5 * (1 + math.cos(math.pi * into))


def lift(teacher_dim: int, dim: int, seed: int) -> Tensor:
    """A fixed matrix ``(dim, teacher_dim)`` with orthonormal columns: angles survive it."""
    if teacher_dim > dim:
        raise FaceError(
            f"The teacher has {teacher_dim} dimensions, the student only {dim}; "
            f"give the student at least as many (--dim {teacher_dim})."
        )
    generator = torch.Generator().manual_seed(seed)
    return torch.linalg.qr(torch.randn(dim, teacher_dim, generator=generator))[0]


def distillation_loss(vectors: Tensor, targets: Tensor, gram: float) -> tuple[Tensor, Tensor]:
    """Loss and the mean cosine distance it contains, for unit vectors ``(B, D)``."""
    distance = 1 - (vectors * targets).sum(1).mean()
    difference = vectors @ vectors.T - targets @ targets.T
    return distance + gram * difference.square().mean(), distance.detach()


class Distillation:
    """The run: student, optimizer, averaged weights and the step they stand at.

    Args:
        net: The student.
        recipe: How to train.
        preprocessing: Of the student.
        material: What it learns from, such as the teacher's id and the number of faces; a run
            goes on only with the same.
    """

    def __init__(
        self,
        net: EmbeddingNet,
        recipe: DistillationRecipe,
        preprocessing: Preprocessing,
        material: Mapping[str, object],
    ) -> None:
        self.material = dict(material)
        self.net = net.to(memory_format=torch.channels_last)
        self.recipe = recipe
        self.preprocessing = preprocessing
        self.augment = Augment()
        self.frozen = nn.ModuleList(frozen_stages(net.trunk, recipe.freeze)).requires_grad_(False)
        self.ema = EMA(net, recipe.ema)
        self.optimizer = torch.optim.AdamW(
            _decayed(net, recipe.weight_decay), lr=recipe.lr, fused=True
        )
        self.model: nn.Module = self.net
        if distributed.world() > 1:
            self.model = DistributedDataParallel(self.net)
        self.step = 0
        self.seconds = 0.0
        self.history: list[dict[str, float]] = []

    def train_step(self, crops: np.ndarray, targets: Tensor) -> float:
        """One step on one batch, shared among the processes; returns the mean cosine distance."""
        started = time.monotonic()
        recipe = self.recipe
        rank, world = distributed.rank(), distributed.world()
        generator = torch.Generator().manual_seed(
            (recipe.seed * 1_000_003 + self.step) * world + rank
        )
        own = torch.from_numpy(np.ascontiguousarray(crops[rank::world]))
        images = self.augment(own, recipe.size_at(self.step), generator)
        images = self.preprocessing.normalise(images).contiguous(memory_format=torch.channels_last)
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.lr_at(self.step)
        self.net.train()
        self.frozen.eval()
        if self.step >= recipe.settles_at:
            keep_statistics(self.net)
        if self.step == recipe.settles_at:
            self.net.load_state_dict(self.ema.net.state_dict())
        with torch.autocast("cpu", torch.bfloat16):
            vectors = self.model(images)
        vectors = distributed.gather(vectors.float())
        targets = torch.cat([targets[first::world] for first in range(world)])
        loss, distance = distillation_loss(vectors, targets, recipe.gram)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), recipe.clip)
        self.optimizer.step()
        self.ema.update(self.net)
        self.step += 1
        self.seconds += time.monotonic() - started
        return distance.item()

    @property
    def settings(self) -> dict[str, object]:
        """What decides the result, and has to be equal for a run to go on."""
        return {
            **asdict(self.recipe),
            **self.net.architecture.to_dict(),
            **self.material,
        }

    def save(self, path: Path) -> None:
        checkpoint.save(
            path,
            {
                "settings": self.settings,
                "net": self.net.state_dict(),
                "ema": self.ema.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "seconds": self.seconds,
                "history": self.history,
            },
        )

    def load(self, path: Path) -> None:
        """Go on from a checkpoint.

        Raises:
            FaceError: It was made with another recipe, network or material.
        """
        state = checkpoint.load(path)
        then = asdict(DistillationRecipe()) | state.get(
            "settings", {}
        )  # what is newer than it had its default
        differ = [name for name, value in self.settings.items() if then.get(name) != value]
        if differ:
            raise FaceError(f"{path} was made with another {', '.join(differ)}; start anew.")
        self.net.load_state_dict(state["net"])
        self.ema.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.history = state["history"]


def batch_rows(step: int, batch: int, count: int, seed: int) -> np.ndarray:
    """Which faces a step sees: a fresh permutation per epoch, a function of the step alone."""
    per_epoch = count // batch
    epoch, position = divmod(step, per_epoch)
    order = np.random.default_rng((seed, epoch)).permutation(count)
    return np.sort(order[position * batch : (position + 1) * batch])


def _decayed(net: nn.Module, weight_decay: float) -> list[dict[str, Any]]:
    """Weight decay on matrices only; norms and biases are free."""
    parameters = [p for p in net.parameters() if p.requires_grad]
    return [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
