"""``python -m training evaluate``: measure a run or a bundle and write an HTML report."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from model.arguments import natural
from model.bundle import Bundle
from model.embedding.embedder import Embedder
from model.errors import FaceError
from training.commands.fit import recipe_of, summary
from training.datasets import lfw
from training.errors import UsageError
from training.inputs.crops import aligned_crops
from training.learn import checkpoint
from training.learn.inference import embed_crops
from training.learn.run_log import read_csv
from training.learn.task import Task, add_task_arguments, make_task
from training.measure import metrics
from training.report import plots
from training.report.html_page import evaluation_page, png

PATHS = ("data", "cache", "out", "exclude")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_task_arguments(parser)
    parser.add_argument("--run", type=Path, help="folder of a fit; brings its own settings")
    parser.add_argument("--bundle", type=Path, help="a bundle, measured on --dataset")
    parser.add_argument("--against", type=Path, metavar="BUNDLE",
                        help="another bundle, to say how far --bundle differs from it")  # fmt: skip
    parser.add_argument("--part", default="test", choices=["train", "val", "test"])
    parser.add_argument("--replicates", type=natural, default=200, help="bootstrap samples")
    parser.add_argument("--out", type=Path, help="folder of the report; default is the run's")


@dataclass(frozen=True, eq=False)
class Subject:
    """The run or bundle to measure.

    Attributes:
        vectors: Embeddings of the measured part.
        names: Labels of :attr:`before` and :attr:`vectors`.
        before: Embeddings of the same photos to compare with, or None.
        history: Rows of ``metrics.csv``.
        bundle: The bundle; None for a run.
    """

    name: str
    task: Task
    vectors: np.ndarray
    out: Path
    names: tuple[str, str] = ("before training", "after training")
    before: np.ndarray | None = None
    history: Sequence[Mapping[str, float]] = ()
    bundle: Bundle | None = None


def run(args: argparse.Namespace) -> int:
    if (args.run is None) == (args.bundle is None):
        raise FaceError("Give either --run (a folder of fit) or --bundle with --dataset.")
    if args.against is not None and args.bundle is None:
        raise UsageError(
            "--against needs --bundle; a run is compared with its own initial network."
        )
    subject = _of_bundle(args) if args.run is None else _of_run(args)
    task, out = subject.task, subject.out
    rows = getattr(task.split, args.part)
    labels = task.table.labels[rows]
    report = metrics.evaluate(
        subject.vectors, labels, against=subject.before, replicates=args.replicates
    )
    where = f"{task.table.name}, {task.split.describe(task.table)}, {args.part} part"
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"model": subject.name, "data": where, **report}
    if subject.before is not None:
        result["against"] = subject.names[0]
    if subject.bundle is not None:
        result["model_id"] = subject.bundle.model_id
        if task.table.name == "lfw":
            result["view2"] = _view2(args, subject.bundle)
    (out / f"evaluation-{args.part}.json").write_text(json.dumps(result, indent=1))
    page = evaluation_page(
        subject.name, f"{where}; n = {len(rows):,}", images=task.images[rows], labels=labels,
        after=subject.vectors, before=subject.before, names=subject.names,
        history=subject.history, report=report,
    )  # fmt: skip
    page.write(out / "report.html")
    _distributions(subject, labels)
    print(f"{where}, n = {len(rows):,}\n{summary(report['metrics'])}")
    if subject.before is not None:
        print(f"minus {subject.names[0]}: {summary(report['difference'], '+.4f')}")
    print(f"report: {out / 'report.html'}")
    print(in_words(subject.names, report))
    return 0


def in_words(names: tuple[str, str], report: Mapping[str, Any]) -> str:
    """A report in one sentence."""
    change = report.get("difference", {}).get("d_prime")
    if change is not None:
        size = f"(d' {change['value']:+.2f} [{change['low']:+.2f}, {change['high']:+.2f}])"
        if change["low"] <= 0 <= change["high"]:
            return f"The two separate people equally well as far as this sample can tell {size}."
        better = "better" if change["value"] > 0 else "worse"
        return f"{names[1]} separates people {better} than {names[0]} {size}."
    entries = report["metrics"]
    first, eer = entries["R@1"]["value"], entries["eer"]["value"]
    return (
        f"The most similar other photo shows the same person in {first:.1%} of cases; a threshold "
        f"with as many false matches as misses is wrong for {eer:.1%} of pairs."
    )


def _of_bundle(args: argparse.Namespace) -> Subject:
    bundle = Bundle.load(args.bundle)
    other = None if args.against is None else Bundle.load(args.against)
    if other is not None and other.model_id == bundle.model_id:
        raise UsageError(f"{args.against} holds the same model as {args.bundle}.")
    task = make_task(args, start=False)
    task.require(args.part)
    rows = getattr(task.split, args.part)
    subject = Subject(
        bundle.name, task, embed_crops(Embedder(bundle, engine="fp32"), task.images, rows),
        args.out or Path("runs/evaluate"), bundle=bundle,
    )  # fmt: skip
    if other is None:
        return subject
    return replace(
        subject,
        names=(_told_apart(other), _told_apart(bundle)),
        before=embed_crops(Embedder(other, engine="fp32"), task.images, rows),
    )


def _told_apart(bundle: Bundle) -> str:
    return f"{bundle.name} ({bundle.model_id[:12]})"


def _task_options(args: argparse.Namespace) -> list[str]:
    """Task options that differ from their defaults."""
    parser = argparse.ArgumentParser()
    add_task_arguments(parser)
    untold = vars(parser.parse_args([]))
    return [f"--{name}" for name, value in untold.items() if getattr(args, name) != value]


def config(run: Path) -> argparse.Namespace:
    if not (run / "config.json").is_file():
        raise FaceError(f"{run} is not the folder of a fit: it has no config.json.")
    if not (run / "net.pt").is_file():
        raise FaceError(
            f"{run} has no net.pt: its fit did not finish. Continue it with fit --resume."
        )
    settings = json.loads((run / "config.json").read_text())
    settings.update({name: Path(settings[name]) for name in PATHS if settings[name] is not None})
    parser = argparse.ArgumentParser()
    add_task_arguments(parser)
    # Options that are newer than the run get their defaults.
    return argparse.Namespace(**{**vars(parser.parse_args([])), **settings})


def _of_run(args: argparse.Namespace) -> Subject:
    """Embeddings after and before training; the run's seed recreates the initial network."""
    if given := _task_options(args):
        raise UsageError(f"--run brings its own settings: leave out {', '.join(given)}.")
    settings = config(args.run)
    task = make_task(settings)
    torch.manual_seed(recipe_of(settings).seed)
    net: nn.Module = task.network(settings.dim)
    before, _ = task.embeddings(net, args.part)
    net.load_state_dict(checkpoint.load(args.run / "net.pt")["net"])
    after, _ = task.embeddings(net, args.part)
    history = read_csv(args.run / "metrics.csv")
    return Subject(args.run.name, task, after, args.out or args.run, before=before, history=history)


def _view2(args: argparse.Namespace, bundle: Bundle) -> dict[str, Any]:
    """Accuracy on LFW's 6,000 pairs; a pair in which a face was not found counts as different."""
    table = lfw.load(args.data)
    pairs = lfw.view2(args.data, table)
    images, found = aligned_crops(table.paths, cache=args.cache)
    rows = np.unique(np.concatenate([pairs.first, pairs.second]))
    place = np.full(len(table), -1)
    place[rows] = np.arange(len(rows))
    vectors = embed_crops(Embedder(bundle, engine="fp32"), images, rows)
    scores = (vectors[place[pairs.first]] * vectors[place[pairs.second]]).sum(1)
    lost = ~(found[pairs.first] & found[pairs.second])
    accuracy, error = metrics.ten_fold(np.where(lost, -1.0, scores), pairs.same, pairs.fold)
    print(f"LFW View 2, 6,000 pairs, 10 folds: accuracy {accuracy:.4f} +- {error:.4f}")
    return {"accuracy": accuracy, "standard_error": error, "pairs": 6000, "lost": int(lost.sum())}


def _distributions(subject: Subject, labels: np.ndarray) -> None:
    samples = {
        name: metrics.pair_scores(vectors, labels)
        for name, vectors in zip(subject.names, (subject.before, subject.vectors), strict=True)
        if vectors is not None
    }
    (subject.out / "distributions.png").write_bytes(png(plots.score_histograms(samples)))
