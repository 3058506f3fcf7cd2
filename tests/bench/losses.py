"""Our losses beside the baselines in time per epoch, and PD-Loss at a million identities."""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from tests.training.losses.direct_pd import DirectPDLoss
from training.inputs.sources import Features, Head
from training.learn.loop import Job
from training.learn.recipe import Recipe
from training.learn.sampling import epoch_batches
from training.losses import CllrLoss, MetricLoss, PDLoss, build

FORMS = {"direct": DirectPDLoss, "streamed": PDLoss}
LARGE = FORMS | {"cllr": CllrLoss}

OURS = ("pd", "cllr")
BASELINES = ("proxy_nca", "proxy_anchor", "arcface", "multi_similarity", "circle", "d")
PICTURES, CLASSES, WIDTH, BATCH = 5_394, 200, 128, 128
"""Of the main comparison on CUB: a head on cached features, where a loss weighs the most."""
SLOWER = 1.05


def step(loss: MetricLoss, embeddings: torch.Tensor, labels: torch.Tensor) -> None:
    """One forward and backward pass, gradients dropped first."""
    embeddings.grad = loss.proxies.grad = None
    loss(embeddings, labels).backward()


def peak(form: str, classes: int, dim: int, batch: int) -> dict[str, float]:
    """Peak resident memory beyond proxies and their gradient (bytes), and seconds of one step."""
    torch.manual_seed(0)
    loss = LARGE[form](classes, dim)
    embeddings = torch.randn(batch, dim, requires_grad=True)
    labels = torch.randint(classes, (batch,))
    step(LARGE[form](8, dim), embeddings, labels % 8)
    loss.proxies.grad = torch.zeros_like(loss.proxies)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    step(loss, embeddings, labels)
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {"extra_bytes": (after - before) * 1024, "seconds": seconds}


def pace(classes: int, dim: int, batch: int, repeats: int) -> dict[str, float]:
    """Median seconds a step of each form, taken in turns so that both meet the same machine."""
    torch.manual_seed(0)
    losses = {form: FORMS[form](classes, dim) for form in FORMS}
    embeddings = torch.randn(batch, dim, requires_grad=True)
    labels = torch.randint(classes, (batch,))
    times: dict[str, list[float]] = {form: [] for form in FORMS}
    for _ in range(repeats):
        for form, loss in losses.items():
            start = time.perf_counter()
            step(loss, embeddings, labels)
            times[form].append(time.perf_counter() - start)
    return {form: sorted(values)[repeats // 2] for form, values in times.items()}


def epoch_seconds(names: tuple[str, ...], repeats: int) -> dict[str, float]:
    """Seconds per epoch with each loss: to draw the batches, and to take as many steps.

    Of both the fastest counts, as other programs on the same core only ever slow them down.
    """
    rng = np.random.default_rng(0)
    labels = np.arange(PICTURES) % CLASSES
    centres = rng.normal(size=(CLASSES, WIDTH))
    source = Features(centres[labels] + rng.normal(size=(PICTURES, WIDTH)))
    recipe = Recipe(epochs=repeats, batch=BATCH)
    drawing: dict[str, list[float]] = {name: [] for name in names}
    stepping: dict[str, list[float]] = {name: [] for name in names}
    with tempfile.TemporaryDirectory() as folder:
        jobs = {
            name: Job(
                Head(WIDTH, WIDTH), build(name, CLASSES, WIDTH), source, labels, recipe,
                Path(folder),
            )
            for name in names
        }  # fmt: skip
        for number in range(repeats):
            batches = {}
            for name, job in jobs.items():
                start = time.perf_counter()
                batches[name] = epoch_batches(labels, BATCH, job.loss.samples_per_class, 0, number)
                drawing[name].append(time.perf_counter() - start)
            for place in range(PICTURES // BATCH):
                for name, job in jobs.items():
                    rows = batches[name][place]
                    start = time.perf_counter()
                    job.train_step(source.batch(rows, None), torch.from_numpy(labels[rows]))
                    stepping[name].append(time.perf_counter() - start)
    steps = PICTURES // BATCH
    return {name: min(drawing[name]) + steps * min(stepping[name]) for name in names}


def _in_own_process(form: str, *numbers: int) -> dict[str, float]:
    """The peak of a process only ever rises, so each measurement gets one of its own."""
    command = [sys.executable, "-m", "tests.bench.losses", "--one", form, *map(str, numbers)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(output)


def main(argv: list[str]) -> int:
    """Print the figures; return 1 if a promise is broken."""
    parser = argparse.ArgumentParser(prog="losses", description=__doc__)
    parser.add_argument("--classes", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=9, help="to take the fastest of")
    parser.add_argument("--one", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.one:
        form, *numbers = args.one
        print(json.dumps(peak(form, *map(int, numbers))))
        return 0
    kept = True
    seconds = epoch_seconds(OURS + BASELINES, args.epochs)
    fastest = min(BASELINES, key=seconds.__getitem__)
    for name, value in sorted(seconds.items(), key=lambda item: item[1]):
        promise = f" (promise: at most {SLOWER:g})" if name in OURS else ""
        ratio = value / seconds[fastest]
        kept &= ratio <= SLOWER or name not in OURS
        print(f"{name}: {1e3 * value:.1f} ms an epoch, {ratio:.2f} of {fastest}{promise}")
    for classes in (100, 1_000):
        seconds = pace(classes, args.dim, args.batch, 101)
        ratio = seconds["streamed"] / seconds["direct"]
        kept &= ratio <= 1.0
        print(
            f"{classes:,} classes: direct {1e3 * seconds['direct']:.2f} ms a step, streamed "
            f"{1e3 * seconds['streamed']:.2f} ms: {ratio:.2f} of it (promise: at most 1)",
            flush=True,
        )
    rows = {f: _in_own_process(f, args.classes, args.dim, args.batch) for f in LARGE}
    for form, row in rows.items():
        print(
            f"{args.classes:,} classes, {form}: {row['extra_bytes'] / 1e6:,.0f} MB beyond proxies "
            f"and gradient, {row['seconds']:.1f} s a step"
        )
    for form in ("streamed", "cllr"):
        share = rows[form]["extra_bytes"] / rows["direct"]["extra_bytes"]
        kept &= share <= 0.1
        print(f"memory of {form}: {share:.1%} of the direct form's (promise: at most 10%)")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
