"""The training loop. A step depends only on the seed and the step number, so a run that was killed
and resumed ends with exactly the weights of an uninterrupted one.

Several processes share each batch; each draws its own augmentation, unlike a single process.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from model.errors import FaceError
from training.errors import UsageError
from training.inputs.prefetch import prefetch
from training.learn import checkpoint, distributed
from training.learn.ema import EMA
from training.learn.freezing import keep_statistics
from training.learn.inference import Source, autocast
from training.learn.optimizer import clip_gradients, parameter_groups
from training.learn.recipe import Recipe, differing
from training.learn.run_log import separation, write_csv
from training.learn.sampling import epoch_batches
from training.losses import MetricLoss
from training.splits import split_name


@dataclass
class Job:
    """One training run.

    Attributes:
        net: Maps input to embeddings ``(B, D)``; its ``head`` gets its own learning rate.
        labels: int64 ``(N,)``, 0..C-1.
        out: Folder for checkpoints and ``metrics.csv``.
        evaluate: Maps the network to validation metrics; the highest ``d_prime`` is the best.
        extra: Optional further loss term: maps network and step to a scalar.
        fresh: Blocks of the network's ``trunk`` that start untrained: they use the head's learning
            rate, and ``freeze_bn`` skips them.
        evaluate_every: Epochs between evaluations.
        checkpoint_every: Steps between checkpoints; 0 for one per epoch.
        patience: Evaluations without a better ``d_prime`` before stopping; 0 never stops.
        settings: Other settings that affect the result, such as the name of the loss. Plain
            values, stored in every checkpoint so that a different run cannot resume from it.
        losses: Losses of this epoch's steps so far.
        seconds: Wall-clock time spent in steps so far.
        processor_seconds: Processor time of these steps, over all threads of this process.
    """

    net: nn.Module
    loss: MetricLoss
    source: Source
    labels: np.ndarray
    recipe: Recipe
    out: Path
    evaluate: Callable[[nn.Module], dict[str, float]] | None = None
    extra: Callable[[nn.Module, int], Tensor] | None = None
    fresh: Sequence[str] = ()
    evaluate_every: int = 1
    checkpoint_every: int = 0
    patience: int = 0
    progress: bool = True
    settings: dict[str, Any] = field(default_factory=dict)
    step: int = 0
    history: list[dict[str, float]] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    seconds: float = 0.0
    processor_seconds: float = 0.0

    def __post_init__(self) -> None:
        recipe = self.recipe
        self.world = distributed.world()
        self.rank = distributed.rank()
        if recipe.batch % self.world:
            raise UsageError(f"batch {recipe.batch} does not divide among {self.world} processes")
        if recipe.compile and self.world > 1:
            raise UsageError("--compile works with one process only")
        self._batches(0)  # Raises early if the loss would have no pairs.
        self.device = next(self.net.parameters()).device
        self.file = self.out / ("last.pt" if self.loss.group is None else f"last-{self.rank}.pt")
        if self.world > 1 and self.device.type == "cuda":
            self.net = nn.SyncBatchNorm.convert_sync_batchnorm(self.net)
        self.per_epoch = max(1, len(self.labels) // recipe.batch)
        self.total = self.per_epoch * recipe.epochs
        self.optimizer = torch.optim.AdamW(
            parameter_groups(self.net, self.fresh, self.loss, recipe), lr=recipe.lr, fused=True
        )
        self.ema = EMA(self.net, recipe.ema) if recipe.ema else None
        self.model: nn.Module = self.net
        if self.world > 1:
            self.model = DistributedDataParallel(self.net)
        elif recipe.compile:
            self.model = torch.compile(self.net)

    @property
    def result(self) -> nn.Module:
        """The network to evaluate and keep: the EMA if there is one."""
        return self.ema.net if self.ema else self.net

    def run(self) -> list[dict[str, float]]:
        """Train to the end (or until patience runs out) and return the history.

        An interrupt saves no checkpoint: in the middle of a step, batch norm is ahead of the
        weights, and only a checkpoint between steps can be resumed exactly.

        Raises:
            UsageError: Several processes with patience, or with a batch they cannot share evenly.
            FaceError: The loss is not finite.
        """
        if self.patience and self.world > 1:
            raise UsageError("--patience works with one process only")
        if self.step == 0 and not self.history:
            # Remove the best checkpoint of an earlier run in this folder.
            (self.out / "best.pt").unlink(missing_ok=True)
            self._report(0, float("nan"))
        bar = tqdm(
            total=self.total, initial=self.step, unit="step", disable=not self.progress or self.rank
        )
        try:
            while self.step < self.total and not self._out_of_patience():
                self._epoch(bar)
        finally:
            bar.close()
        return self.history

    def _epoch(self, bar: tqdm) -> None:
        epoch, position = divmod(self.step, self.per_epoch)
        rows = self._batches(epoch)
        if len(rows[0]) % self.world:
            raise UsageError(
                f"{len(rows[0])} pictures a batch, all this data allows, do not divide among "
                f"{self.world} processes: choose a smaller --batch"
            )
        since = _clocks()
        batches = (
            (number, self._input(epoch, number, rows[number]))
            for number in range(position, len(rows))
        )
        for number, inputs in prefetch(batches) if self.source.slow else batches:
            labels = torch.from_numpy(self.labels[rows[number]]).to(self.device)
            self.losses.append(self.train_step(inputs.to(self.device), labels))
            now = _clocks()
            self.seconds += now[0] - since[0]
            self.processor_seconds += now[1] - since[1]
            since = now
            bar.update()
            # The last step of an epoch is saved below, after the evaluation.
            if self._due() and number + 1 < len(rows):
                self.save()
        row = self._report(epoch + 1, float(np.mean(self.losses)))
        self.losses.clear()
        if "R@1" in row:
            bar.set_postfix({key: f"{row[key]:.3f}" for key in ("R@1", "d_prime") if key in row})
        if not self.checkpoint_every or self._due() or self.step == self.total:
            self.save()

    def _batches(self, epoch: int) -> list[np.ndarray]:
        recipe = self.recipe
        return epoch_batches(
            self.labels, recipe.batch, self.loss.samples_per_class, recipe.seed, epoch
        )

    def _due(self) -> bool:
        return bool(self.checkpoint_every) and self.step % self.checkpoint_every == 0

    def _input(self, epoch: int, number: int, rows: np.ndarray) -> Tensor:
        generator = torch.Generator().manual_seed(
            (self.recipe.seed * 1_000_003 + epoch * self.per_epoch + number) * 64 + self.rank
        )
        return self.source.batch(rows[self.rank :: self.world], generator)

    def train_step(self, inputs: Tensor, labels: Tensor) -> float:
        """One step on this process's ``inputs``; ``labels`` are those of the whole batch."""
        recipe = self.recipe
        for group in self.optimizer.param_groups:
            group["lr"] = recipe.rate(self.step, self.total, self.per_epoch, group["part"])
        self.net.train()
        if recipe.freeze_bn and hasattr(self.net, "trunk"):
            keep_statistics(self.net.trunk, self.fresh)
        with autocast(self.device, recipe.precision):
            embeddings = self.model(inputs)
        if self.world > 1:
            embeddings = distributed.gather(embeddings)
            labels = torch.cat([labels[rank :: self.world] for rank in range(self.world)])
        self.loss.progress = self.step / self.total
        value = self.loss(embeddings, labels)
        whole = recipe.loss_weight * value
        if self.extra is not None:
            whole = whole + self.extra(self.net, self.step)
        if not whole.isfinite():
            raise FaceError(
                f"The loss is {whole.item()} at step {self.step:,}: try a lower --lr or --clip, "
                "or --precision fp32."
            )
        self.optimizer.zero_grad()
        whole.backward()
        clip_gradients(self.optimizer, recipe.clip, self.loss.group)
        self.optimizer.step()
        if self.ema:
            self.ema.update(self.net)
        self.step += 1
        return value.item()

    def _report(self, epoch: int, loss: float) -> dict[str, float]:
        row: dict[str, float] = {"epoch": epoch, "step": self.step, "loss": loss}
        row["seconds"] = round(self.seconds, 2)
        asked = epoch % self.evaluate_every == 0 or self.step == self.total
        if self.evaluate is not None and self.rank == 0 and asked:
            net = self.result
            mode = net.training
            net.eval()
            row.update(self.evaluate(net))
            net.train(mode)
            best = max(map(separation, self.history), default=-math.inf)
            if self.patience and (not self.history or separation(row) > best):
                checkpoint.save(self.out / "best.pt", {"net": net.state_dict(), "epoch": epoch})
        self.history.append(row)
        if self.rank == 0:
            split = split_name(self.settings.get("split", ""))
            write_csv(self.out / "metrics.csv", [{**row, "split": split} for row in self.history])
        return row

    def _out_of_patience(self) -> bool:
        values = [separation(row) for row in self.history if "d_prime" in row]
        if not self.patience or not values:
            return False
        return len(values) - 1 - int(np.argmax(values)) >= self.patience

    @property
    def _decisive(self) -> dict[str, Any]:
        """Settings besides the recipe that must be equal to resume a run exactly."""
        shared = self.loss.group is not None
        return {**self.settings, "number of processes": self.world, "--shard-proxies": shared}

    def save(self) -> None:
        """Write the checkpoint for :meth:`load`; one per process if proxies are sharded."""
        if self.rank == 0 or self.loss.group is not None:
            state = {
                "settings": self._decisive,
                "recipe": asdict(self.recipe),
                "net": self.net.state_dict(),
                "loss": self.loss.state_dict(),
                "ema": self.ema.state_dict() if self.ema else {},
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "seconds": self.seconds,
                "processor_seconds": self.processor_seconds,
                "history": self.history,
                "losses": self.losses,
            }
            checkpoint.save(self.file, state)

    def load(self) -> None:
        """Resume from the last checkpoint.

        Raises:
            UsageError: The checkpoint has another recipe or other settings.
        """
        state = checkpoint.load(self.file)
        if "recipe" not in state:
            raise UsageError(f"{self.out} holds a run of another command: choose another --out")
        differ = differing(
            {**state.get("settings", {}), "recipe": state["recipe"]},
            {**self._decisive, "recipe": asdict(self.recipe)},
        )
        if differ:
            raise UsageError(
                f"{self.out} was trained with another {', '.join(differ)}: choose another --out"
            )
        self.net.load_state_dict(state["net"])
        self.loss.load_state_dict(state["loss"])
        if self.ema:
            self.ema.load_state_dict(state["ema"])
        self.optimizer.load_state_dict(state["optimizer"])
        self.step, self.seconds = state["step"], state["seconds"]
        self.processor_seconds = state.get("processor_seconds", 0.0)
        self.history, self.losses = state["history"], state.get("losses", [])
        distributed.require_equal(self.step)


def _clocks() -> tuple[float, float]:
    return time.monotonic(), time.process_time()
