"""A resumable distillation run: student, optimiser, averaged weights and step."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.embedding.tensors import resize
from training.distill.loss import GRAM, distillation_loss
from training.distill.schedule import Schedule
from training.distill.stored_faces import StoredFaces
from training.distill.targets import targets
from training.inputs.disturbance import Disturbance
from training.learn import checkpoint
from training.learn.ema import EMA
from training.learn.freezing import keep_statistics
from training.measure import metrics

LAST = "last.pt"
"""File name of the checkpoint in a run's folder."""

SAVED = 100
"""Steps between checkpoints."""

MOST_HELD_OUT = 3000
"""Most held-out faces used in a validation."""


@dataclass(frozen=True)
class Settings:
    """Settings of a training step.

    Attributes:
        batch: Faces per step.
        weight_decay: Weight decay of matrices; norms and biases have none.
        clip: Largest gradient norm.
        gram: Weight of the squared difference of the batch's Gram matrices.
        ema: Decay of the averaged weights.
        settle: Last share of the learning-rate decay, in which batch-norm statistics are frozen,
            so that the network is trained as it will be served.
        seed: Seed of order and augmentation.
    """

    batch: int = 64
    weight_decay: float = 0.02
    clip: float = 1.0
    gram: float = GRAM
    ema: float = 0.9995
    settle: float = 0.4
    seed: int = 0


class LongRun:
    """A run that can stop after any step and resumes exactly from its checkpoint.

    Args:
        net: The student.
        onto: Map from the teachers' vectors to targets, ``(D, dim)``.
        schedule: Learning rate by step.
        size: Input size in pixels, from this step on.
    """

    def __init__(
        self, net: EmbeddingNet, onto: np.ndarray, schedule: Schedule, size: int, settings: Settings
    ) -> None:
        self.net = net.to(memory_format=torch.channels_last)
        self.onto, self.schedule, self.size, self.settings = onto, schedule, size, settings
        self.preprocessing = Preprocessing(input_size=size)
        self.disturb = Disturbance()
        self.ema = EMA(net, settings.ema)
        matrices = [p for p in net.parameters() if p.ndim > 1]
        vectors = [p for p in net.parameters() if p.ndim <= 1]
        self.forward: Callable[[Tensor], Tensor] = net
        self.optimizer = torch.optim.AdamW(
            [
                {"params": matrices, "weight_decay": settings.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=schedule.peak,
            fused=True,
        )
        self.step = 0
        self.seconds = 0.0
        self.history: list[dict[str, float]] = []
        # Parts of the run: first step, number of training faces and input size of each.
        self.parts: list[dict[str, int]] = []
        self._order: tuple[int, np.ndarray] | None = None

    def begin_part(self, faces: StoredFaces) -> None:
        """Begin a new part of the run if the number of faces or the input size changed."""
        now = {"faces": len(faces), "size": self.size}
        if not self.parts or {k: self.parts[-1][k] for k in now} != now:
            self.parts.append({"step": self.step, **now})

    def batch(self, faces: StoredFaces) -> np.ndarray:
        """Rows of this step's faces; they depend only on the step and the part."""
        size = self.settings.batch
        epoch, position = divmod(self.step - self.parts[-1]["step"], self._epoch_steps(faces))
        if self._order is None or self._order[0] != epoch:
            self._order = epoch, faces.order(self.settings.seed + len(self.parts), epoch)
        return np.sort(self._order[1][position * size : (position + 1) * size])

    def _epoch_steps(self, faces: StoredFaces) -> int:
        if self._order is None:
            self._order = 0, faces.order(self.settings.seed + len(self.parts), 0)
        return len(self._order[1]) // self.settings.batch

    def train_step(self, faces: StoredFaces) -> float:
        """One step; returns the mean cosine distance to the targets."""
        started = time.monotonic()
        rows = self.batch(faces)
        wanted = torch.from_numpy(targets(faces.vectors(rows), self.onto))
        generator = torch.Generator().manual_seed(self.settings.seed * 1_000_003 + self.step)
        images = self.disturb(torch.from_numpy(faces.crops(rows)), self.size, generator)
        images = self.preprocessing.normalise(images).contiguous(memory_format=torch.channels_last)
        for group in self.optimizer.param_groups:
            group["lr"] = self.schedule.rate(self.step)
        self.net.train()
        if self._settled():
            keep_statistics(self.net)
        with torch.autocast("cpu", torch.bfloat16):
            vectors = self.forward(images)
        vectors = vectors.float()
        loss, distance = distillation_loss(vectors, wanted, self.settings.gram)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.net.parameters(), self.settings.clip)
        self.optimizer.step()
        self.ema.update(self.net)
        self.step += 1
        self.seconds += time.monotonic() - started
        return distance.item()

    def _settled(self) -> bool:
        end = self.schedule.end
        if end is None:
            return False
        begins = end - round(self.schedule.decay_steps * self.settings.settle)
        if self.step == begins:
            self.net.load_state_dict(self.ema.net.state_dict())
        return self.step >= begins

    @torch.inference_mode()
    def embed(self, part: Callable[[Tensor], Tensor], crops: np.ndarray) -> Tensor:
        """Output of a network, or of a part of it, for crops without augmentation or mirroring."""
        found = []
        for start in range(0, len(crops), 64):
            pixels = torch.from_numpy(crops[start : start + 64]).permute(0, 3, 1, 2)
            images = self.preprocessing.normalise(resize(pixels.float(), self.size))
            with torch.autocast("cpu", torch.bfloat16):
                found.append(part(images.contiguous(memory_format=torch.channels_last)).float())
        return torch.cat(found)

    def validate(self, held_out: StoredFaces) -> dict[str, float]:
        """Cosine distance to the targets, d' and FNMR on held-out people."""
        rows = np.random.default_rng(0).permutation(len(held_out))[:MOST_HELD_OUT]
        vectors = self.embed(self.ema.net, held_out.crops(rows)).numpy()
        wanted = targets(held_out.vectors(rows), self.onto)
        labels = np.unique(held_out.people[rows], return_inverse=True)[1]
        sample = metrics.pair_scores(vectors, labels)
        return {
            "distance": float(1 - (vectors * wanted).sum(1).mean()),
            "d_prime": metrics.d_prime(sample),
            "fnmr_1e-3": metrics.fnmr_at(sample, 1e-3) or float("nan"),
            "fnmr_1e-4": metrics.fnmr_at(sample, 1e-4) or float("nan"),
        }

    def learn(
        self, faces: StoredFaces, held_out: StoredFaces, every: int, save: Callable[[], None]
    ) -> None:
        """Train until the schedule ends, or until SIGTERM or Ctrl-C."""
        distances: list[float] = []
        with _stop_signals() as stopped:
            while not stopped.is_set() and self.step != self.schedule.end:
                distances.append(self.train_step(faces))
                ended = self.step == self.schedule.end
                if self.step % every == 0 or ended:
                    self.note(held_out, float(np.mean(distances)))
                    distances.clear()
                if self.step % SAVED == 0 or ended:
                    self._print(distances)
                    save()
        save()

    def _print(self, distances: list[float]) -> None:
        faces = self.step * self.settings.batch
        print(
            f"step {self.step} faces {faces:,} "
            f"distance {np.mean(distances[-SAVED:] or [math.nan]):.4f} "
            f"rate {self.schedule.rate(self.step):.2e} {faces / max(1, self.seconds):.0f} a second",
            flush=True,
        )

    def note(self, held_out: StoredFaces, train_distance: float) -> None:
        row = {
            "step": self.step, "faces": self.step * self.settings.batch, "size": self.size,
            "hours": round(self.seconds / 3600, 3), "train_distance": train_distance,
            **self.validate(held_out),
        }  # fmt: skip
        self.history.append(row)
        print(" ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)

    def recipe(self) -> dict[str, Any]:
        """Settings and history of the run, for a bundle's provenance."""
        return {
            "settings": asdict(self.settings),
            "schedule": asdict(self.schedule),
            "parts": self.parts,
            "steps": self.step,
            "hours": round(self.seconds / 3600, 2),
        }

    def save(self, path: Path) -> None:
        checkpoint.save(
            path,
            {
                "architecture": self.net.architecture.to_dict(),
                "settings": asdict(self.settings),
                "schedule": asdict(self.schedule),
                "onto": torch.from_numpy(self.onto),
                "size": self.size,
                "net": self.net.state_dict(),
                "ema": self.ema.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "step": self.step,
                "seconds": self.seconds,
                "history": self.history,
                "parts": self.parts,
            },
        )

    @classmethod
    def load(cls, path: Path, *, size: int | None = None) -> LongRun:
        """Resume from a checkpoint, with another input size if one is given."""
        state = checkpoint.load(path)
        run = cls(
            EmbeddingNet(Architecture(**state["architecture"])),
            state["onto"].numpy(),
            Schedule(**state["schedule"]),
            size or state["size"],
            Settings(**state["settings"]),
        )
        run.net.load_state_dict(state["net"])
        run.ema.load_state_dict(state["ema"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.step, run.seconds = state["step"], state["seconds"]
        run.history, run.parts = state["history"], state["parts"]
        return run

    def finish(self, faces: int) -> None:
        """Start the learning-rate decay now, over this many faces."""
        self.schedule = replace(
            self.schedule, decay_from=self.step, decay_steps=faces // self.settings.batch
        )


def target_map(checkpoint_file: Path) -> np.ndarray:
    """A run's map from the teachers' vectors to targets, ``(D, dim)``."""
    return checkpoint.load(checkpoint_file)["onto"].numpy()


@contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that Ctrl-C and SIGTERM set, so that the current step is always completed."""
    stopped = threading.Event()
    names = (signal.SIGTERM, signal.SIGINT)
    before = [signal.signal(name, lambda *_: stopped.set()) for name in names]
    try:
        yield stopped
    finally:
        for name, handler in zip(names, before, strict=True):
            signal.signal(name, handler)
