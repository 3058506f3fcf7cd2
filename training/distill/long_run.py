"""The run: student, optimiser, averaged weights, and the step they stand at."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.embedding.network import EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.embedding.tensors import resize
from training.distill.disturbance import Disturbance
from training.distill.schedule import Schedule
from training.distill.stored_faces import Faces
from training.distill.targets import targets
from training.learn import checkpoint
from training.learn.ema import EMA
from training.learn.freezing import keep_statistics
from training.measure import metrics

MOST_HELD_OUT = 3000
"""Held-out faces a validation looks at."""


@dataclass(frozen=True)
class Settings:
    """What decides a step, beside the faces.

    Attributes:
        batch: Faces a step.
        weight_decay: Of matrices; norms and biases are free.
        clip: Largest gradient norm.
        gram: Weight of the squared difference of the batch's Gram matrices.
        ema: Decay of the averaged weights.
        settle: Share of the decay, at its end, in which batch norm keeps its statistics, so that
            the network that is trained is the one that will be served.
        seed: Fixes order and disturbance.
    """

    batch: int = 64
    weight_decay: float = 0.02
    clip: float = 1.0
    gram: float = 4.0
    ema: float = 0.9995
    settle: float = 0.4
    seed: int = 0


class Run:
    """One long run. It can be stopped after any step and goes on exactly from its checkpoint.

    Args:
        net: The student.
        onto: Map from the teachers' vectors to targets, ``(D, dim)``.
        schedule: Rate by step.
        size: Input size in pixels from here on.
        settings: The rest.
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
        self.parts: list[dict[str, int]] = []
        """From which step on how many faces were learnt from at which size."""

    def begin_part(self, faces: Faces) -> None:
        """Note what is learnt from; a new part begins where that or the size changed."""
        now = {"faces": len(faces), "size": self.size}
        if not self.parts or {k: self.parts[-1][k] for k in now} != now:
            self.parts.append({"step": self.step, **now})

    def batch(self, faces: Faces) -> np.ndarray:
        """Which faces this step sees: a function of the step and the part alone."""
        since = self.step - self.parts[-1]["step"]
        count = len(faces.order(0, 0)) if not hasattr(self, "_order") else len(self._order)
        per_epoch = count // self.settings.batch
        epoch, position = divmod(since, per_epoch)
        if getattr(self, "_epoch", None) != epoch:
            self._epoch = epoch
            self._order = faces.order(self.settings.seed + len(self.parts), epoch)
        start = position * self.settings.batch
        return np.sort(self._order[start : start + self.settings.batch])

    def train_step(self, faces: Faces) -> float:
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
            vectors = self.net(images)
        vectors = vectors.float()
        distance = 1 - (vectors * wanted).sum(1).mean()
        difference = vectors @ vectors.T - wanted @ wanted.T
        loss = distance + self.settings.gram * difference.square().mean()
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
    def embed(self, net: nn.Module, crops: np.ndarray) -> Tensor:
        """Unit vectors of crops, without disturbance and without mirror."""
        found = []
        for start in range(0, len(crops), 64):
            pixels = torch.from_numpy(crops[start : start + 64]).permute(0, 3, 1, 2)
            images = self.preprocessing.normalise(resize(pixels.float(), self.size))
            with torch.autocast("cpu", torch.bfloat16):
                found.append(net(images.contiguous(memory_format=torch.channels_last)).float())
        return torch.cat(found)

    def validate(self, held_out: Faces) -> dict[str, float]:
        """Distance to the targets, d' and misses on people who are not learnt from."""
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

    def learn(self, faces: Faces, held_out: Faces, every: int, save: Callable[[], None]) -> None:
        """Steps until the schedule ends, or until SIGTERM or Ctrl-C."""
        stopped = False

        def stop(*_: object) -> None:
            nonlocal stopped
            stopped = True

        for name in (signal.SIGTERM, signal.SIGINT):
            signal.signal(name, stop)
        distances: list[float] = []
        while not stopped and self.step != self.schedule.end:
            distances.append(self.train_step(faces))
            if self.step % 100 == 0 or self.step == self.schedule.end:
                print(
                    f"step {self.step} faces {self.step * self.settings.batch:,} "
                    f"distance {np.mean(distances[-100:]):.4f} "
                    f"rate {self.schedule.rate(self.step):.2e} "
                    f"{self.step * self.settings.batch / max(1, self.seconds):.0f} a second",
                    flush=True,
                )
                save()
            if self.step % every == 0 or self.step == self.schedule.end:
                self.note(held_out, float(np.mean(distances)))
                distances.clear()
                save()
        save()

    def note(self, held_out: Faces, train_distance: float) -> None:
        row = {
            "step": self.step, "faces": self.step * self.settings.batch, "size": self.size,
            "hours": round(self.seconds / 3600, 3), "train_distance": train_distance,
            **self.validate(held_out),
        }  # fmt: skip
        self.history.append(row)
        print(" ".join(f"{key} {value:.4g}" for key, value in row.items()), flush=True)

    def state(self) -> dict[str, Any]:
        return {
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
        }

    def save(self, path: Path) -> None:
        checkpoint.save(path, self.state())

    @classmethod
    def load(cls, path: Path, net: EmbeddingNet, *, size: int | None) -> Run:
        """Go on from a checkpoint, at another size if one is given."""
        state = checkpoint.load(path)
        run = cls(
            net, state["onto"].numpy(), Schedule(**state["schedule"]), size or state["size"],
            Settings(**state["settings"]),
        )  # fmt: skip
        run.net.load_state_dict(state["net"])
        run.ema.load_state_dict(state["ema"])
        run.optimizer.load_state_dict(state["optimizer"])
        run.step, run.seconds = state["step"], state["seconds"]
        run.history, run.parts = state["history"], state["parts"]
        return run

    def finish(self, faces: int) -> None:
        """Begin to decay now, over so many faces."""
        self.schedule = replace(
            self.schedule, decay_from=self.step, decay_steps=faces // self.settings.batch
        )
