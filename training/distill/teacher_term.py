"""Keep what the teachers taught while fine-tuning: their targets, as a further term of the loss.

Fine-tuning on few people forgets the many the network was taught on; a batch of their faces a
step, held to the teachers' targets, prevents it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.embedding.preprocess import Preprocessing
from training.datasets.face_set import read_names
from training.distill.long_run import LAST, target_map
from training.distill.loss import distillation_loss
from training.distill.stored_faces import StoredFaces, split
from training.distill.targets import targets
from training.errors import UsageError
from training.inputs.disturbance import Disturbance
from training.learn.inference import autocast
from training.learn.recipe import Recipe


class TeacherTerm:
    """Network and step to the weighted distillation loss on that step's faces.

    Args:
        faces: Prepared faces.
        onto: Map from the teachers' vectors to targets, ``(D, dim)``.
        preprocessing: Of the network.
        batch: Faces a step.
        weight: Of this term beside the metric loss.
        seed: Fixes order and disturbance.
        precision: ``fp32`` or ``bf16``, as for the rest of the step.
    """

    def __init__(
        self, faces: StoredFaces, onto: np.ndarray, preprocessing: Preprocessing,
        *, batch: int, weight: float, seed: int, precision: str = "fp32",
    ) -> None:  # fmt: skip
        self.faces, self.onto, self.preprocessing = faces, onto, preprocessing
        self.batch, self.weight, self.seed = min(batch, len(faces)), weight, seed
        self.disturb, self.precision = Disturbance(), precision

    def __call__(self, net: nn.Module, step: int) -> Tensor:
        epoch, position = divmod(step, len(self.faces) // self.batch)
        order = np.random.default_rng((self.seed, epoch)).permutation(len(self.faces))
        rows = np.sort(order[position * self.batch : (position + 1) * self.batch])
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        pixels = torch.from_numpy(self.faces.crops(rows))
        images = self.disturb(pixels, self.preprocessing.input_size, generator)
        images = self.preprocessing.normalise(images).contiguous(memory_format=torch.channels_last)
        device = next(net.parameters()).device
        with autocast(device, self.precision):
            vectors = net(images.to(device)).float()
        wanted = torch.from_numpy(targets(self.faces.vectors(rows), self.onto)).to(device)
        return self.weight * distillation_loss(vectors, wanted)[0]


def add_keep_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that :func:`keep_teacher` reads."""
    parser.add_argument("--keep-run", type=Path, help="run of distill whose targets to keep")
    parser.add_argument("--keep-faces", type=Path, nargs="*", default=[],
                        help="prepared faces to keep them on")  # fmt: skip
    parser.add_argument("--keep-left-out", type=Path, help="list of faces to leave out of these")
    parser.add_argument("--keep-weight", type=float, help="of this term (1)")


def keep_settings(args: argparse.Namespace) -> dict[str, Any]:
    """What of these options decides the result of a run; plain values.

    Raises:
        UsageError: Some are given without the others they need.
    """
    if args.keep_run is None:
        for option in ("keep_faces", "keep_left_out", "keep_weight"):
            if getattr(args, option) not in (None, []):
                raise UsageError(f"--{option.replace('_', '-')} needs --keep-run")
    elif not args.keep_faces:
        raise UsageError("--keep-run needs --keep-faces")
    return {
        "keep_run": str(args.keep_run),
        "keep_faces": [str(folder) for folder in args.keep_faces],
        "keep_left_out": str(args.keep_left_out),
        "keep_weight": _weight(args),
    }


def keep_teacher(
    args: argparse.Namespace, preprocessing: Preprocessing, recipe: Recipe
) -> Callable[[nn.Module, int], Tensor] | None:
    """The term the command line asks for, or None."""
    if args.keep_run is None:
        return None
    faces, _ = split(StoredFaces.open(args.keep_faces), read_names(args.keep_left_out))
    return TeacherTerm(
        faces, target_map(args.keep_run / LAST), preprocessing,
        batch=recipe.batch, weight=_weight(args), seed=recipe.seed, precision=recipe.precision,
    )  # fmt: skip


def _weight(args: argparse.Namespace) -> float:
    return 1.0 if args.keep_weight is None else args.keep_weight
