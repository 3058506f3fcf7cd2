"""The distillation loss as a further term during fine-tuning.

Fine-tuning on few people makes the network forget the many faces it was distilled on. One batch of
those faces per step, with the teachers' targets, prevents this.
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
    """Maps network and step to the weighted distillation loss on that step's faces.

    Args:
        onto: Map from the teachers' vectors to targets, ``(D, dim)``.
        batch: Faces per step.
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
    """The options that affect the result of a run, as plain values.

    Raises:
        UsageError: An option is given without another that it needs.
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
    """The term set by the command-line options, or None without ``--keep-run``."""
    if args.keep_run is None:
        return None
    faces, _ = split(StoredFaces.open(args.keep_faces), read_names(args.keep_left_out))
    return TeacherTerm(
        faces, target_map(args.keep_run / LAST), preprocessing,
        batch=recipe.batch, weight=_weight(args), seed=recipe.seed, precision=recipe.precision,
    )  # fmt: skip


def _weight(args: argparse.Namespace) -> float:
    return 1.0 if args.keep_weight is None else args.keep_weight
