"""Dataset, split and network in one object, shared by fit, compare and reproduce."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import nn

from model.arguments import positive
from model.bundle import Bundle
from model.embedding.network import TRUNKS, Architecture, EmbeddingNet
from model.embedding.preprocess import Preprocessing
from training import datasets
from training.datasets.face_set import without
from training.datasets.table import DatasetError, Table
from training.errors import UsageError
from training.inputs.crops import aligned_crops, why_lost
from training.inputs.features import cached_features, frozen_trunk, reduced
from training.inputs.pictures import pictures
from training.inputs.sources import Features, Head, Pictures
from training.learn import distributed
from training.learn.inference import Source, class_means, embed
from training.learn.initial_weights import (
    bundle_architecture,
    find_weights,
    initialise,
    is_bundle,
)
from training.learn.loop import Job
from training.learn.recipe import Recipe
from training.losses import build
from training.measure import metrics
from training.measure.retrieval import KS
from training.splits import SPLITS, Split, split

DEFAULTS = Architecture()


@dataclass(frozen=True, eq=False)
class Task:
    """Everything that defines a run except the loss and the recipe.

    Attributes:
        table: The usable pictures.
        split: Rows of the training, validation and test parts.
        images: uint8 pictures, one per row of ``table``.
        features: float32 features of a frozen trunk, or None.
        init: Source of the initial weights.
        size: Side of the network input in pixels.
        pixels: Preprocessing, except for the input size.
    """

    table: Table
    split: Split
    images: np.ndarray
    features: np.ndarray | None
    trunk: str
    init: str
    size: int
    pixels: Preprocessing = field(default_factory=Preprocessing)

    @property
    def budget(self) -> str:
        """The trunk and resolution, for captions."""
        kind = "fine-tuned"
        if self.features is not None:
            kind = f"frozen, {self.features.shape[1]:,} features"
        stored = self.images.shape[1]
        return f"{self.trunk} {kind}, {self.size} px (pictures stored at {stored} px)"

    def settings(
        self, loss: str, dim: int, proxy_init: str, options: dict[str, object] | None
    ) -> dict[str, object]:
        """All settings besides the recipe that affect the result; arguments as for :meth:`job`."""
        return {
            "loss": loss, "options": options or {}, "dim": dim, "proxy_init": proxy_init,
            "split": self.split.describe(self.table), "pictures": self.table.fingerprint,
            "budget": self.budget, "init": self.init,
        }  # fmt: skip

    def source(self, rows: np.ndarray) -> Source:
        """Input for some rows of the table, renumbered from 0."""
        if self.features is not None:
            return Features(self.features[rows])
        return Pictures(self.images, rows, self.preprocessing, faces=self.table.faces)

    @property
    def preprocessing(self) -> Preprocessing:
        return replace(self.pixels, input_size=self.size)

    def network(self, dim: int) -> nn.Module:
        """An initialised network, on the GPU if there is one; seed torch first."""
        return self._network(dim)[0]

    def _network(self, dim: int) -> tuple[nn.Module, list[str]]:
        """The network and the blocks of its trunk that started untrained."""
        if self.features is not None:
            return Head(self.features.shape[1], dim).to(best_device()), []
        architecture = Architecture(trunk=self.trunk, dim=dim)
        if is_bundle(self.init):
            # Use the bundle's own head; only the embedding length must agree.
            architecture = replace(bundle_architecture(self.init), dim=dim)
        net = EmbeddingNet(architecture)
        fresh = initialise(net, self.init)
        return net.to(best_device(), memory_format=torch.channels_last), fresh

    def embeddings(self, net: nn.Module, part: str) -> tuple[np.ndarray, np.ndarray]:
        """Unit vectors and labels of ``train``, ``val`` or ``test``."""
        self.require(part)
        rows = getattr(self.split, part)
        return embed(net, self.source(rows), np.arange(len(rows))), self.table.labels[rows]

    def require(self, *parts: str) -> None:
        """Raise DatasetError if a part is empty, as may happen with a small dataset."""
        if empty := [part for part in parts if not len(getattr(self.split, part))]:
            raise DatasetError(
                f"{self.table.name} has too few pictures for --split {self.split.name}: nothing "
                f"is left for {' and '.join(empty)}."
            )

    def job(
        self, loss: str, recipe: Recipe, dim: int, out: Path, *,
        proxy_init: str = "random", options: dict[str, object] | None = None, part: str = "val",
        progress: bool = True, shard: bool = False,
    ) -> Job:  # fmt: skip
        """Build a run that is ready to start, evaluated on ``part`` during training.

        ``proxy_init`` is ``random`` or ``class_mean``; losses without proxies ignore it.
        ``shard`` divides the proxies among the processes.
        """
        self.require("train", part, "test")
        torch.manual_seed(recipe.seed)
        net, fresh = self._network(dim)
        rows = self.split.train
        labels = np.unique(self.table.labels[rows], return_inverse=True)[1]
        extra = {"shard": distributed.shard()} if shard else {}
        criterion = build(loss, int(labels.max()) + 1, dim, **(options or {}), **extra)
        source = self.source(rows)
        if proxy_init == "class_mean" and criterion.proxies is not None:
            criterion.start_from(class_means(net, source, labels, recipe.precision))
        criterion.to(best_device())
        return Job(
            net, criterion, source, labels, recipe, out,
            evaluate=partial(self.quick, part=part), fresh=fresh, progress=progress,
            settings=self.settings(loss, dim, proxy_init, options),
        )  # fmt: skip

    def quick(self, net: nn.Module, part: str = "val") -> dict[str, float]:
        """R@K and d' of one part, without intervals."""
        vectors, labels = self.embeddings(net, part)
        report = metrics.evaluate(vectors, labels, replicates=0)["metrics"]
        names = (*(f"R@{k}" for k in KS), "d_prime")
        return {name: report[name]["value"] for name in names}


def best_device() -> torch.device:
    """This process's GPU, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def add_task_arguments(parser: argparse.ArgumentParser, dataset: str | None = None) -> None:
    """Options that :func:`make_task` reads; ``dataset`` is the default of ``--dataset``."""
    parser.add_argument("--dataset", default=dataset, choices=list(datasets.DATASETS))
    parser.add_argument("--data", type=Path, default=Path("data"), help="where the dataset lies")
    parser.add_argument("--split", choices=SPLITS)
    parser.add_argument("--trunk", choices=list(TRUNKS),
                        help=f"default: the bundle's, else {DEFAULTS.trunk}")  # fmt: skip
    parser.add_argument("--init", default="imagenet",
                        help="imagenet, scratch, a weight file, a bundle")  # fmt: skip
    parser.add_argument("--frozen", action="store_true",
                        help="train the head only, on cached features")  # fmt: skip
    parser.add_argument("--feature-precision", default="fp32", choices=["fp32", "bf16"],
                        help="of a frozen trunk; bf16 is faster on some processors")  # fmt: skip
    parser.add_argument("--reduce", type=positive, metavar="N",
                        help="keep N principal components of a frozen trunk's features, which "
                        "makes steps cheaper")  # fmt: skip
    parser.add_argument("--size", type=positive,
                        help="network input, pixels; default: the bundle's, "
                        f"else {Preprocessing().input_size}")  # fmt: skip
    parser.add_argument(
        "--stored", type=positive, help="pixels to decode pictures to; default --size"
    )
    parser.add_argument("--exclude", type=Path, help="text file of people and faces to leave out")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def make_task(args: argparse.Namespace, *, start: bool = True) -> Task:
    """Load, align or decode, and split a dataset by the command-line options.

    Args:
        args: Options of :func:`add_task_arguments`; defaults are filled in.
        start: True if the network will be trained. Its initial weights are then checked first,
            because aligning photos takes minutes.
    """
    if args.dataset is None:
        raise UsageError(f"Give --dataset, one of: {', '.join(datasets.DATASETS)}.")
    pixels = _fill_in(args)
    if start:
        find_weights(args.init, args.trunk)
    table = without(datasets.load(args.dataset, args.data), args.exclude)
    if table.faces:
        if args.stored:
            raise UsageError("--stored does not apply to photos of people.")
        images, found = aligned_crops(table.paths, aligned=table.aligned, cache=args.cache)
        key = Path(images.filename).stem
        if not found.all():
            lost = f"{(~found).sum():,} of {len(found):,} photos {why_lost(table.aligned)}"
            if not found.any():
                raise DatasetError(f"{table.name}: {lost}: none is left.")
            print(f"{lost}: left out")
            images, table = images[np.flatnonzero(found)], table.subset(found)
    else:
        images = pictures(table, args.stored or args.size, args.cache)
        key = Path(images.filename).stem
    default = "identity_disjoint" if table.faces and args.dataset != "lfw40" else "paper"
    chosen = args.split or default
    if args.dataset == "lfw" and chosen == "identity_disjoint" and table.official_train is None:
        raise DatasetError(f"lfw: {table.notes[0]} Or choose another --split, such as held_out.")
    parts = split(table, chosen)
    for note in (*table.notes, parts.describe(table)):
        print(f"{table.name}: {note}")
    features = None
    if args.frozen:
        trunk = frozen_trunk(args.trunk, args.init)
        features = cached_features(
            trunk, images, key, replace(pixels, input_size=args.size), args.cache,
            args.feature_precision,
        )  # fmt: skip
        if args.reduce:
            features = reduced(features, parts.train, args.reduce)
    return Task(
        table, parts, images, features, args.trunk, str(args.init), args.size, pixels=pixels
    )


def _fill_in(args: argparse.Namespace) -> Preprocessing:
    """Fill in trunk and size: the bundle's if ``--init`` is one, else the defaults.

    Returns:
        The preprocessing.

    Raises:
        UsageError: The trunk differs from the bundle's, or the size is invalid.
    """
    held, pixels = DEFAULTS, Preprocessing()
    if is_bundle(args.init):
        held, pixels = bundle_architecture(args.init), Bundle.load(args.init).preprocessing
        if args.trunk not in (None, held.trunk):
            raise UsageError(f"{args.init} has the trunk {held.trunk}: leave out --trunk.")
    args.trunk = args.trunk or held.trunk
    args.size = args.size or pixels.input_size
    try:
        replace(pixels, input_size=args.size)
    except ValueError as error:
        raise UsageError(f"--size cannot be used: {error}.") from error
    if is_bundle(args.init) and args.size != pixels.input_size:
        print(f"input: {args.size} px as asked for; {args.init} is served {pixels.input_size} px")
    return pixels
