"""``python -m training evaluate``: measure a run or a bundle, and write a report to look at."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from model.bundle import Bundle
from model.embedder import Embedder
from model.errors import FaceError
from training import checkpoint, metrics, plots
from training.crops import aligned_crops
from training.datasets import lfw
from training.embedding import embed_crops
from training.errors import UsageError
from training.fit import recipe_of, summary
from training.journal import read_csv
from training.report import evaluation_page, png
from training.task import Task, add_task_arguments, make_task

PATHS = ("data", "cache", "out", "exclude")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_task_arguments(parser)
    parser.add_argument("--run", type=Path, help="folder of a fit; brings its own settings")
    parser.add_argument("--bundle", type=Path, help="a bundle, measured on --dataset")
    parser.add_argument("--part", default="test", choices=["train", "val", "test"])
    parser.add_argument("--replicates", type=int, default=200, help="bootstrap samples")
    parser.add_argument("--out", type=Path, help="folder of the report; default is the run's")


def run(args: argparse.Namespace) -> int:
    if (args.run is None) == (args.bundle is None):
        raise FaceError("Give either --run (a folder of fit) or --bundle with --dataset.")
    if args.run is not None:
        if given := _task_options(args):
            raise UsageError(f"--run brings its own settings: leave out {', '.join(given)}.")
        settings = config(args.run)
        task = make_task(settings)
        vectors, before = _of_run(task, settings, args.run, args.part)
        name, out, history = args.run.name, args.out or args.run, read_csv(args.run / "metrics.csv")
    else:
        task = make_task(args)
        task.require(args.part)
        bundle = Bundle.load(args.bundle)
        rows = getattr(task.split, args.part)
        vectors = embed_crops(Embedder(bundle), task.images, rows)
        name, out, before, history = bundle.name, args.out or Path("runs/evaluate"), None, []
    rows = getattr(task.split, args.part)
    labels = task.table.labels[rows]
    report = metrics.evaluate(vectors, labels, replicates=args.replicates)
    where = f"{task.table.name}, {task.split.describe(task.table)}, {args.part} part"
    out.mkdir(parents=True, exist_ok=True)
    result: dict[str, Any] = {"model": name, "data": where, **report}
    if task.table.name == "lfw" and args.bundle is not None:
        result["view2"] = _view2(args, bundle)
    (out / f"evaluation-{args.part}.json").write_text(json.dumps(result, indent=1))
    page = evaluation_page(
        name, f"{where}; n = {len(rows):,}", images=task.images[rows], labels=labels,
        after=vectors, before=before, history=history, report=report,
    )  # fmt: skip
    page.write(out / "report.html")
    _distributions(out, before, vectors, labels)
    print(f"{where}, n = {len(rows):,}\n{summary(report)}\nreport: {out / 'report.html'}")
    return 0


def _task_options(args: argparse.Namespace) -> list[str]:
    """Options of the task that are not as they are when nothing is said."""
    parser = argparse.ArgumentParser()
    add_task_arguments(parser)
    untold = vars(parser.parse_args([]))
    return [f"--{name}" for name, value in untold.items() if getattr(args, name) != value]


def config(run: Path) -> argparse.Namespace:
    """The settings a finished run was started with."""
    if not (run / "config.json").is_file():
        raise FaceError(f"{run} is no folder of a fit: it has no config.json.")
    if not (run / "net.pt").is_file():
        raise FaceError(f"{run} has no net.pt: its fit did not finish. Go on with fit --resume.")
    settings = json.loads((run / "config.json").read_text())
    settings.update({name: Path(settings[name]) for name in PATHS if settings[name] is not None})
    return argparse.Namespace(**settings)


def _of_run(
    task: Task, settings: argparse.Namespace, run: Path, part: str
) -> tuple[np.ndarray, np.ndarray]:
    """Embeddings after training, and before it: the same seed gives the same fresh network."""
    torch.manual_seed(recipe_of(settings).seed)
    net: nn.Module = task.network(settings.dim)
    before, _ = task.embeddings(net, part)
    net.load_state_dict(checkpoint.load(run / "net.pt")["net"])
    return task.embeddings(net, part)[0], before


def _view2(args: argparse.Namespace, bundle: Bundle) -> dict[str, Any]:
    """Accuracy on LFW's 6,000 pairs; a pair with a face that was not found counts as different."""
    table = lfw.load(args.data)
    pairs = lfw.view2(args.data, table)
    images, found = aligned_crops(table.paths, cache=args.cache)
    rows = np.unique(np.concatenate([pairs.first, pairs.second]))
    place = np.full(len(table), -1)
    place[rows] = np.arange(len(rows))
    vectors = embed_crops(Embedder(bundle), images, rows)
    scores = (vectors[place[pairs.first]] * vectors[place[pairs.second]]).sum(1)
    lost = ~(found[pairs.first] & found[pairs.second])
    accuracy, error = metrics.ten_fold(np.where(lost, -1.0, scores), pairs.same, pairs.fold)
    print(f"LFW View 2, 6,000 pairs, 10 folds: accuracy {accuracy:.4f} +- {error:.4f}")
    return {"accuracy": accuracy, "standard_error": error, "pairs": 6000, "lost": int(lost.sum())}


def _distributions(
    out: Path, before: np.ndarray | None, after: np.ndarray, labels: np.ndarray
) -> None:
    named = {"before training": before, "after training": after}
    samples = {
        name: metrics.pair_scores(vectors, labels)
        for name, vectors in named.items()
        if vectors is not None
    }
    (out / "distributions.png").write_bytes(png(plots.score_histograms(samples)))
