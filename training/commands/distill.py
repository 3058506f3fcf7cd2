"""``python -m training distill``: train a student to reproduce its teachers' vectors.

Faces must be prepared first (``training prepare``). The same command resumes a stopped run from its
last checkpoint, also with more faces or another input size. The learning rate stays constant until
``--finish`` starts its decay over the given number of faces. The averaged weights are written as a
bundle at the end of the decay, or at any time with ``--bundle``.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import torch

from model.arguments import positive, share
from model.bundle import save_network
from model.embedding.network import Architecture, EmbeddingNet
from model.errors import FaceError
from training.datasets.face_set import read_names
from training.distill.long_run import LAST, LongRun, Settings
from training.distill.refit import ENOUGH, refit_head
from training.distill.schedule import Schedule
from training.distill.stored_faces import StoredFaces, split
from training.distill.targets import principal_map, targets
from training.errors import UsageError
from training.learn.initial_weights import initialise
from training.learn.run_log import write_csv


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--faces", type=Path, nargs="+", required=True, help="prepared stores")
    parser.add_argument("--left-out", type=Path, help="list of people and photos to leave out")
    parser.add_argument("--init", default="imagenet", help="imagenet, scratch, a file or a bundle")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--size", type=positive, help="input size in pixels (64, or as it was)")
    parser.add_argument("--trunk", default="resnet50", help="of a new run (resnet50)")
    parser.add_argument("--dim", type=positive, default=512, help="of a new run (512)")
    parser.add_argument("--batch", type=positive, default=64, help="of a new run (64)")
    parser.add_argument("--lr", type=float, default=6e-4, help="of a new run (6e-4)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--settle", type=share, metavar="SHARE", default=Settings.settle,
        help="of a new run: last share of the decay that keeps batch-norm statistics (0.4)",
    )  # fmt: skip
    parser.add_argument("--compile", action="store_true", help="by torch.compile; needs g++")
    parser.add_argument("--finish", type=positive, metavar="FACES", help="let the rate fall now")
    parser.add_argument("--every", type=positive, default=1000, help="steps between validations")
    parser.add_argument("--bundle", type=Path, help="only write the averaged weights there")
    parser.add_argument("--name", default="student", help="of the bundle")


def run(args: argparse.Namespace) -> int:
    torch.manual_seed(args.seed)
    left_out = read_names(args.left_out)
    training, held_out = split(StoredFaces.open(args.faces), left_out)
    if not len(held_out):
        raise FaceError("Nobody is held out to judge by: give a store with people, some hundreds.")
    print(f"{len(training):,} faces to learn from, {len(held_out):,} held out")
    checkpoint = args.out / LAST
    if checkpoint.exists():
        job = LongRun.load(checkpoint, size=args.size)
    elif args.bundle:
        raise UsageError(f"--bundle: there is no run in {args.out} yet.")
    else:
        job = _begin(args, training)
        job.note(held_out, float("nan"))
    if not args.bundle:
        if args.finish:
            job.finish(args.finish)
        if args.compile:
            job.forward = torch.compile(job.net)
        job.begin_part(training)
        job.learn(training, held_out, args.every, lambda: _keep(job, args.out))
        if job.step != job.schedule.end:
            print(f"stopped after step {job.step}; the same command goes on from there")
            return 130
    bundle = save_network(
        args.bundle or args.out / "bundle", job.ema.net, job.preprocessing, name=args.name,
        card=f"# {args.name}\n\nDistilled from {' and '.join(training.stores[0].teachers)}.\n",
        provenance={
            "distill": job.recipe(), "teachers": list(training.stores[0].teachers),
            "stores": [store.name for store in training.stores],
        },
    )  # fmt: skip
    print(f"wrote {bundle.path}, model {bundle.model_id[:12]}")
    return 0


def _begin(args: argparse.Namespace, training: StoredFaces) -> LongRun:
    net = EmbeddingNet(Architecture(trunk=args.trunk, dim=args.dim, head_norm=True))
    fresh = initialise(net, args.init)
    rows = np.random.default_rng(args.seed).permutation(len(training))[:ENOUGH]
    vectors = training.vectors(rows)
    if args.dim > vectors.shape[1]:
        raise UsageError(f"--dim {args.dim}: the teachers have {vectors.shape[1]} dimensions.")
    onto = principal_map(vectors, args.dim)
    settings = Settings(batch=args.batch, settle=args.settle, seed=args.seed)
    job = LongRun(net, onto, Schedule(peak=args.lr), args.size or 64, settings)
    if not fresh:  # The features are trained: start with the best head for these teachers.
        features = job.embed(net.eval().features, training.crops(rows))
        refit_head(net, features, torch.from_numpy(targets(vectors, onto)))
        job = LongRun(net, onto, Schedule(peak=args.lr), args.size or 64, settings)
    return job


def _keep(job: LongRun, out: Path) -> None:
    job.save(out / LAST)
    write_csv(out / "metrics.csv", job.history)
