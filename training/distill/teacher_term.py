"""Keep what a teacher taught while fine-tuning: its targets on unlabelled faces, as a further term.

Fine-tuning on few people forgets the many the network was taught on; a batch of their faces a
step, held to the teacher's vectors, prevents it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from model.bundle import Bundle
from model.embedding.embedder import Embedder
from model.embedding.preprocess import Preprocessing
from training.datasets.face_set import load_faces, shares
from training.distill import distillation
from training.distill.distillation import batch_rows, distillation_loss, lift
from training.errors import UsageError
from training.inputs.augment import Augment
from training.learn.inference import autocast
from training.learn.recipe import Recipe


class TeacherTerm:
    """Network and step to the weighted distillation loss on that step's faces.

    Args:
        crops: uint8 ``(N, 112, 112, 3)``.
        targets: float32 ``(N, D)``, the teacher's vectors in the network's space.
        preprocessing: Of the network.
        batch: Faces a step.
        weight: Of this term beside the metric loss.
        seed: Fixes order and augmentation.
        precision: ``fp32`` or ``bf16``, as for the rest of the step.
    """

    def __init__(
        self, crops: np.ndarray, targets: Tensor, preprocessing: Preprocessing,
        *, batch: int, weight: float, seed: int, precision: str = "fp32",
    ) -> None:  # fmt: skip
        self.crops, self.targets, self.preprocessing = crops, targets, preprocessing
        self.batch, self.weight, self.seed = min(batch, len(crops)), weight, seed
        self.augment, self.precision = Augment(), precision

    def __call__(self, net: nn.Module, step: int) -> Tensor:
        rows = batch_rows(step, self.batch, len(self.crops), self.seed)
        generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
        pixels = torch.from_numpy(np.array(self.crops[rows]))
        images = self.augment(pixels, self.preprocessing.input_size, generator)
        images = self.preprocessing.normalise(images).contiguous(memory_format=torch.channels_last)
        device = next(net.parameters()).device
        with autocast(device, self.precision):
            vectors = net(images.to(device)).float()
        targets = self.targets[rows].to(device)
        return (
            self.weight
            * distillation_loss(vectors, targets, distillation.DistillationRecipe.gram)[0]
        )


def add_keep_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that :func:`keep_teacher` reads."""
    parser.add_argument("--keep-teacher", type=Path, help="bundle whose vectors are to be kept")
    parser.add_argument("--keep-faces", type=Path, nargs="*", default=[],
                        help="aligned unlabelled faces to keep them on")  # fmt: skip
    parser.add_argument("--keep-photos", type=Path, nargs="*", default=[],
                        help="the same, of photos to be aligned")  # fmt: skip
    parser.add_argument("--spare", default="", metavar="FOLDER:SHARE,...",
                        help="share of a folder of --keep-photos to leave out")  # fmt: skip
    parser.add_argument("--keep-weight", type=float, help="of this term; default 1")


def keep_settings(args: argparse.Namespace) -> dict[str, Any]:
    """What of these options decides the result of a run; plain values.

    Raises:
        UsageError: There are faces or a weight, but no teacher whose vectors are kept on them.
    """
    if args.keep_teacher is None:
        for option in ("keep_faces", "keep_photos", "spare", "keep_weight"):
            if getattr(args, option) not in (None, [], ""):
                raise UsageError(f"--{option.replace('_', '-')} needs --keep-teacher")
    return {
        "keep_teacher": str(args.keep_teacher),
        "keep_faces": [str(folder) for folder in args.keep_faces],
        "keep_photos": [str(folder) for folder in args.keep_photos],
        "keep_spare": shares(args.spare),
        "keep_weight": _weight(args),
    }


def keep_teacher(
    args: argparse.Namespace, preprocessing: Preprocessing, recipe: Recipe
) -> Callable[[nn.Module, int], Tensor] | None:
    """The term the command line asks for, or None."""
    if args.keep_teacher is None:
        return None
    teacher = Embedder(Bundle.load(args.keep_teacher))
    faces, _ = load_faces(
        [], args.keep_faces, args.keep_photos,
        exclude=args.exclude, spare=shares(args.spare), teacher=teacher, cache=args.cache,
    )  # fmt: skip
    matrix = lift(faces.targets.shape[1], args.dim, seed=0)
    targets = torch.from_numpy(faces.targets) @ matrix.T
    return TeacherTerm(
        faces.crops, targets, preprocessing,
        batch=recipe.batch, weight=_weight(args), seed=recipe.seed,
        precision=recipe.precision,
    )  # fmt: skip


def _weight(args: argparse.Namespace) -> float:
    return 1.0 if args.keep_weight is None else args.keep_weight
