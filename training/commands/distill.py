"""``python -m training distill``: teach a student network the geometry of a teacher.

One process, or several that share each batch: ``torchrun --nproc-per-node N -m training distill``.
On a CPU, one process of one thread per core is the fastest (``OMP_NUM_THREADS=1``).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from model.bundle import Bundle, save_network
from model.embedding.embedder import Embedder
from model.embedding.network import TRUNKS, Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from model.embedding.tensors import resize
from model.errors import FaceError
from training.datasets.face_set import FaceSet, check_held_out, load_faces, shares
from training.distill.distillation import Distillation, DistillationRecipe, batch_rows, lift
from training.distill.refit import ENOUGH, refit_head
from training.errors import STOPPED, UsageError, positive
from training.learn import distributed
from training.learn.freezing import frozen_stages
from training.learn.initial_weights import initialise, started_from
from training.learn.run_log import write_csv
from training.measure import metrics

LAST = "last.pt"
"""The checkpoint in the folder of a run."""


@torch.inference_mode()
def forward(
    part: Callable[[Tensor], Tensor],
    crops: np.ndarray,
    rows: np.ndarray,
    size: int,
    preprocessing: Preprocessing,
) -> Tensor:
    """What a network, or a part of it, makes of some crops without augmentation."""
    found = []
    for start in range(0, len(rows), 64):
        pixels = torch.from_numpy(np.array(crops[rows[start : start + 64]])).permute(0, 3, 1, 2)
        images = preprocessing.normalise(resize(pixels.float(), size))
        with torch.autocast("cpu", torch.bfloat16):
            found.append(part(images.contiguous(memory_format=torch.channels_last)).float())
    return torch.cat(found)


def validate(
    net: EmbeddingNet, faces: FaceSet, matrix: Tensor, size: int, preprocessing: Preprocessing
) -> dict[str, float]:
    """Cosine distance to the teacher, and d' over all pairs, on held-out people."""
    vectors = forward(net, faces.crops, np.arange(len(faces)), size, preprocessing)
    targets = torch.from_numpy(faces.targets) @ matrix.T
    return {
        "distance": 1 - (vectors * targets).sum(1).mean().item(),
        "d_prime": metrics.d_prime(metrics.pair_scores(vectors.numpy(), faces.labels)),
    }


def note_progress(
    job: Distillation, held_out: FaceSet, matrix: Tensor, train_distance: float
) -> None:
    """Add a row to the run's history and print it."""
    size = job.recipe.size_at(max(job.step - 1, 0))
    row = {
        "step": job.step, "images": job.step * job.recipe.batch, "size": size,
        "hours": round(job.seconds / 3600, 3), "train_distance": train_distance,
        **validate(job.ema.net, held_out, matrix, size, job.preprocessing),
    }  # fmt: skip
    tqdm.write(" ".join(f"{key} {value:.4g}" for key, value in row.items()))
    job.history.append(row)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--teacher", type=Path, required=True, help="bundle of the teacher")
    parser.add_argument(
        "--people", type=Path, nargs="*", default=[], help="aligned faces, one folder a person"
    )
    parser.add_argument(
        "--loose", type=Path, nargs="*", default=[], help="aligned faces of unknown people"
    )
    parser.add_argument(
        "--photos", type=Path, nargs="*", default=[], help="photos of unknown people, to be aligned"
    )
    parser.add_argument("--exclude", type=Path, help="text file of people and faces to leave out")
    parser.add_argument(
        "--spare", default="", metavar="FOLDER:SHARE,...",
        help="share of a folder of --photos to leave out for measuring, such as utkface:0.25",
    )  # fmt: skip
    parser.add_argument("--init", default="imagenet", help="imagenet, scratch, a file or a bundle")
    parser.add_argument(
        "--refit-head", action="store_true",
        help="fit the head to this teacher first; for a start that learnt from another",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument(
        "--stages", default="64:300000,96:60000", help="input size:images seen, in order"
    )
    parser.add_argument("--trunk", default="resnet50", choices=list(TRUNKS))
    parser.add_argument("--dim", type=positive, default=512)
    parser.add_argument("--lr", type=float, default=DistillationRecipe.lr)
    parser.add_argument("--decay", type=float, default=DistillationRecipe.decay)
    parser.add_argument(
        "--settle", type=float, default=DistillationRecipe.settle,
        help="share of the steps, at the end, with batch-norm statistics kept",
    )  # fmt: skip
    parser.add_argument(
        "--freeze", default=DistillationRecipe.freeze, metavar="STAGE",
        help="keep the trunk as it is up to this stage, such as layer2, for faster steps",
    )  # fmt: skip
    parser.add_argument("--batch", type=positive, default=DistillationRecipe.batch)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=positive, default=500, help="steps between checkpoints")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--name", default="student")


def _stages(text: str) -> tuple[tuple[int, int], ...]:
    try:
        stages = [stage.split(":") for stage in text.split(",")]
        found = tuple((int(size), int(images)) for size, images in stages)
    except ValueError:
        message = f"--stages {text} is not like 64:300000,96:60000 (input size:images seen)."
        raise UsageError(message) from None
    for size, _ in found:
        try:
            Preprocessing(input_size=size)
        except ValueError as error:
            raise UsageError(f"--stages {text} cannot be used: {error}.") from error
    return found


def _learn(
    job: Distillation, training: FaceSet, held_out: FaceSet, matrix: Tensor, out: Path, every: int
) -> None:
    """All steps that are left, with a row of history and a checkpoint every so many."""
    recipe, leader = job.recipe, distributed.rank() == 0
    targets = torch.from_numpy(training.targets) @ matrix.T
    if leader and not job.history:
        note_progress(job, held_out, matrix, math.nan)
    distances: list[float] = []
    with tqdm(
        total=recipe.steps, initial=job.step, unit="step", mininterval=10, disable=not leader
    ) as bar:
        while job.step < recipe.steps:
            rows = batch_rows(job.step, recipe.batch, len(training), recipe.seed)
            distances.append(job.train_step(training.crops[rows], targets[rows]))
            bar.update()
            if leader and (job.step % every == 0 or job.step == recipe.steps):
                note_progress(job, held_out, matrix, float(np.mean(distances)))
                job.save(out / LAST)
                write_csv(out / "metrics.csv", job.history)
                distances.clear()


def run(args: argparse.Namespace) -> int:
    distributed.start(gpu=False)
    stages, spare = _stages(args.stages), shares(args.spare)
    recipe = DistillationRecipe(
        stages=stages, batch=args.batch, lr=args.lr, decay=args.decay, settle=args.settle,
        freeze=args.freeze, seed=args.seed,
    )  # fmt: skip
    if recipe.batch % distributed.world():
        raise UsageError(
            f"--batch {recipe.batch} does not divide among {distributed.world()} processes."
        )
    torch.manual_seed(recipe.seed)
    net = EmbeddingNet(Architecture(trunk=args.trunk, dim=args.dim, head_norm=True))
    frozen = frozen_stages(net.trunk, recipe.freeze)
    fresh = initialise(net, args.init)
    if args.refit_head and fresh:
        raise UsageError(
            f"--refit-head needs features that are trained; {', '.join(fresh)} would start fresh."
        )
    if untrained := [name for name in fresh if getattr(net.trunk, name) in frozen]:
        raise UsageError(
            f"--freeze {recipe.freeze} would keep {', '.join(untrained)} at random weights; "
            "give an --init that brings them."
        )
    preprocessing = Preprocessing(input_size=stages[-1][0])
    teacher = Embedder(Bundle.load(args.teacher))
    training, held_out = load_faces(
        args.people, args.loose, args.photos,
        exclude=args.exclude, spare=spare, teacher=teacher, cache=args.cache,
    )  # fmt: skip
    if len(training) < recipe.batch:
        raise FaceError(f"There are {len(training)} faces to learn from, fewer than --batch.")
    check_held_out(held_out)
    matrix = lift(training.targets.shape[1], args.dim, seed=0)
    print(f"{len(training):,} faces to learn from, {len(held_out):,} held out")

    last = args.out / LAST
    resuming = args.resume and last.exists()
    if args.refit_head and not resuming:
        rows = np.random.default_rng(recipe.seed).permutation(len(training))[:ENOUGH]
        features = forward(net.eval().features, training.crops, rows, stages[0][0], preprocessing)
        refit_head(net, features, torch.from_numpy(training.targets[rows]) @ matrix.T)

    material = {
        "teacher": teacher.model_id,
        "number of faces": len(training),
        "faces": hashlib.sha256(training.targets).hexdigest()[:12],
        "number of processes": distributed.world(),
        "init": started_from(args.init),
        "head fitted": args.refit_head,
    }
    job = Distillation(net, recipe, preprocessing, material)
    if resuming:
        job.load(last)
    leader = distributed.rank() == 0
    if leader:
        args.out.mkdir(parents=True, exist_ok=True)
        (args.out / "recipe.json").write_text(json.dumps(vars(args) | asdict(recipe), default=str))
    try:
        _learn(job, training, held_out, matrix, args.out, args.every)
    except KeyboardInterrupt:
        print(STOPPED.format(step=job.step))
        return 130
    if leader:
        bundle = save_network(
            args.out / "bundle", job.ema.net, preprocessing, name=args.name,
            card=f"# {args.name}\n\nDistilled from {teacher.bundle.name}.\n",
            provenance={
                "distill": asdict(recipe), **material, "hours": round(job.seconds / 3600, 2),
            },
        )  # fmt: skip
        print(f"wrote {bundle.path}, model {bundle.model_id[:12]}")
    distributed.stop()
    return 0
