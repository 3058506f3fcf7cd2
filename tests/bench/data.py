"""Does the network wait for data? Share of a training step spent waiting for the next batch."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from model.embedding.network import Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from training.inputs.prefetch import prefetch
from training.inputs.sources import Pictures
from training.learn.loop import Job
from training.learn.recipe import Recipe
from training.losses import build

LIMIT = 0.05


def main(argv: list[str]) -> int:
    """Print the share for each kind of picture; return 1 if one is above 5%."""
    parser = argparse.ArgumentParser(prog="data", description=__doc__)
    parser.add_argument("--trunk", default="resnet50")
    parser.add_argument("--size", type=int, default=112)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--steps", type=int, default=8)
    args = parser.parse_args(argv)
    shares = [share_of_waiting(args, faces=faces) for faces in (False, True)]
    return 0 if max(shares) <= LIMIT else 1


def share_of_waiting(args: argparse.Namespace, *, faces: bool) -> float:
    """Train some steps on noise, augmented as faces or as other pictures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "pictures.npy"
        shape = (4 * args.batch, args.size, args.size, 3)
        stored = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=shape)
        stored[:] = np.random.default_rng(0).integers(0, 255, shape, np.uint8)
        stored.flush()
        images = np.load(file, mmap_mode="r")
        rows = np.arange(len(images))
        source = Pictures(images, rows, Preprocessing(input_size=args.size), faces=faces)
        net = EmbeddingNet(Architecture(trunk=args.trunk)).to(memory_format=torch.channels_last)
        labels = rows % 16
        recipe = Recipe(batch=args.batch, freeze_bn=True)
        job = Job(net, build("pd", 16, 512), source, labels, recipe, Path(folder), progress=False)
        generator = torch.Generator().manual_seed(0)
        order = [np.sort(np.roll(rows, n * 7)[: args.batch]) for n in range(args.steps + 1)]
        batches = prefetch((chosen, source.batch(chosen, generator)) for chosen in order)
        chosen, inputs = next(batches)
        job.train_step(inputs, torch.from_numpy(labels[chosen]))
        waited = worked = 0.0
        for _ in range(args.steps):
            start = time.perf_counter()
            chosen, inputs = next(batches)
            ready = time.perf_counter()
            job.train_step(inputs, torch.from_numpy(labels[chosen]))
            waited += ready - start
            worked += time.perf_counter() - ready
    share = waited / (waited + worked)
    kind = "faces" if faces else "other pictures"
    print(
        f"{args.trunk}, {kind}, batch {args.batch}, {args.size} px: "
        f"{1e3 * worked / args.steps:.0f} ms a step, {1e3 * waited / args.steps:.1f} ms waiting "
        f"for data: {share:.2%} (promise: 5%)"
    )
    return share


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
