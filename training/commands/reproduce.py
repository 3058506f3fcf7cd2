"""``python -m training reproduce``: run an experiment of the paper and compare the numbers."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from training.commands.compare import PAPER_LOSSES, statistics, write_table
from training.commands.fit import add_recipe_arguments, recipe_of
from training.errors import UsageError, positive
from training.learn.inference import embed
from training.learn.recipe import Recipe
from training.learn.task import Task, add_task_arguments, make_task
from training.learn.trials import run_one
from training.measure import metrics
from training.measure.retrieval import KS
from training.report import plots
from training.report.html_page import png

Results = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        about: What the experiment varies.
        run: Function from task, recipe, folder and number of seeds to results by row.
        paper: The paper's R@1, R@2, R@4 and R@8 by row; empty if it shows only a plot.
        setting: The paper's settings.
        trunk: The paper's trunk, used unless ``--trunk`` is given.
    """

    about: str
    run: Callable[[Task, Recipe, Path, int], Results]
    paper: dict[str, tuple[float, ...]]
    setting: str
    trunk: str = "resnet50"


def dloss_vs_pdloss(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    large = replace(recipe, batch=min(500, len(task.split.train)))
    return {
        name: _seeds(task, name, large, out / name, seeds, dim=256)
        for name in ("d", "pd_nolog", "pd")
    }


def batch_size(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    return {
        f"BS {size}": _seeds(task, "pd", replace(recipe, batch=size), out / f"bs{size}", seeds)
        for size in (32, 64)
    }


def init_temperature(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    return {
        f"{start}, tau {tau:g}": _seeds(
            task, "pd", recipe, out / f"{start}-{tau:g}", seeds,
            proxy_init=start, options={"temperature": tau},
        )
        for start in ("random", "class_mean")
        for tau in (0.1, 0.5, 1.0)
    }  # fmt: skip


def embedding_size(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    return {
        f"EMB {dim}": _seeds(task, "pd", recipe, out / f"emb{dim}", seeds, dim=dim)
        for dim in (256, 512, 1024)
    }


def main_comparison(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    return {name: _seeds(task, name, recipe, out / name, seeds) for name in PAPER_LOSSES.split(",")}


def distributions(task: Task, recipe: Recipe, out: Path, seeds: int) -> Results:
    """Plot scores before and after training; the paper's d' goes from 0.91 to 2.19."""
    job = task.job("pd", recipe, 512, out / "pd", progress=False)
    rows = task.split.test
    source, labels = task.source(rows), task.table.labels[rows]
    before = embed(job.net, source, np.arange(len(rows)))
    job.evaluate = None
    job.run()
    after = embed(job.result, source, np.arange(len(rows)))
    samples = {
        name: metrics.pair_scores(vectors, labels)
        for name, vectors in (("before training", before), ("after training", after))
    }
    (out / "distributions.png").write_bytes(png(plots.score_histograms(samples)))
    figures = {name: metrics.d_prime(sample) for name, sample in samples.items()}
    lines = [
        f"{task.table.name}, {task.split.describe(task.table)}; {task.budget}; test, "
        f"n = {len(rows):,}; {recipe.epochs} epochs, batch {recipe.batch}, lr {recipe.lr:g}; "
        "one seed.",
        "",
    ]
    lines += ["| d' | ours | paper |", "|---|---|---|"]
    paper = {"before training": 0.91, "after training": 2.19}
    lines += [f"| {name} | {value:.2f} | {paper[name]:.2f} |" for name, value in figures.items()]
    (out / "table.md").write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    return {}


EXPERIMENTS: dict[str, Experiment] = {
    "dloss_vs_pdloss": Experiment(
        "D-Loss, PD-Loss without and with the logarithm", dloss_vs_pdloss, {},
        "CUB val, ResNet18, EMB 256, BS 500, 300 epochs; a plot: pd above d, no log does not train",
        trunk="resnet18",
    ),
    "batch_size": Experiment(
        "batch size 32 and 64", batch_size, {},
        "CUB val, EMB 512, 500 epochs; a plot: BS 64 slightly higher at the end",
    ),
    "init_temperature": Experiment(
        "proxy initialisation x temperature", init_temperature,
        {
            "random, tau 0.1": (0.7629, 0.8229, 0.8664, 0.8975),
            "random, tau 0.5": (0.7784, 0.8386, 0.8785, 0.9075),
            "random, tau 1": (0.7794, 0.8352, 0.8757, 0.9104),
            "class_mean, tau 0.1": (0.7684, 0.8290, 0.8726, 0.9016),
            "class_mean, tau 0.5": (0.7742, 0.8371, 0.8802, 0.9063),
            "class_mean, tau 1": (0.7682, 0.8340, 0.8761, 0.9052),
        },
        "CUB val, ResNet50, EMB 512, BS 32, 500 epochs",
    ),
    "embedding_size": Experiment(
        "embedding size 256, 512, 1024", embedding_size,
        {
            "EMB 256": (0.7641, 0.8381, 0.8964, 0.9355),
            "EMB 512": (0.7794, 0.8352, 0.8757, 0.9104),
            "EMB 1024": (0.7635, 0.8428, 0.9021, 0.9367),
        },
        "CUB val, ResNet50, BS 32, 500 epochs",
    ),
    "main_comparison": Experiment(
        "PD-Loss and four baselines", main_comparison, {},
        "CUB, CARS196, LFW tests, ResNet50, EMB 512, BS 32, 500 epochs; plots: pd first on CARS "
        "(all K), CUB (R@4, R@8) and LFW (R@1, R@2)",
    ),
    "distributions": Experiment(
        "scores before and after training", distributions, {},
        "CUB test, ResNet50, EMB 512, BS 32: d' 0.91 before, 2.19 after",
    ),
}  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("experiment", nargs="?", help="one of: " + ", ".join(EXPERIMENTS))
    add_task_arguments(parser, dataset="cub")
    add_recipe_arguments(parser)
    parser.add_argument("--seeds", type=positive, default=1, help="how many, from --seed on")
    parser.add_argument("--out", type=Path, help="default: runs/reproduce/DATASET")
    parser.set_defaults(trunk=None)


def run(args: argparse.Namespace) -> int:
    if args.experiment is None:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:18} {experiment.about}\n{'':18} paper: {experiment.setting}")
        return 0
    if args.experiment not in EXPERIMENTS:
        raise UsageError(
            f"There is no experiment {args.experiment!r}. There are: {', '.join(EXPERIMENTS)}."
        )
    experiment = EXPERIMENTS[args.experiment]
    args.trunk = args.trunk or experiment.trunk
    recipe, task = recipe_of(args), make_task(args)
    out = (args.out or Path("runs/reproduce", args.dataset)) / args.experiment
    out.mkdir(parents=True, exist_ok=True)
    results = experiment.run(task, recipe, out, args.seeds)
    if results:
        caption = f"{task.table.name}, {task.split.describe(task.table)}; {task.budget}"
        write_table(out, results, caption, title="ours")
        _beside(out, experiment, results)
    return 0


def _seeds(
    task: Task, loss: str, recipe: Recipe, out: Path, seeds: int, **settings: Any
) -> list[dict[str, Any]]:
    return [
        run_one(task, loss, replace(recipe, seed=seed), out / str(seed), **settings)
        for seed in range(recipe.seed, recipe.seed + seeds)
    ]


def _beside(out: Path, experiment: Experiment, results: Results) -> None:
    """Append a table of the paper's numbers beside ours to ``table.md``."""
    run = next(iter(results.values()))[0]
    lines = ["", f"Paper: {experiment.setting}. Ours: {run['part']}, {run['budget']}."]
    if experiment.paper:
        lines.append("")
        names = [f"R@{k}" for k in KS]
        lines += ["| | " + " | ".join(f"{n} paper | {n} ours" for n in names) + " |"]
        lines += ["|" + "---|" * (2 * len(names) + 1)]
        for row, numbers in experiment.paper.items():
            ours = statistics(results[row])
            cells = [f"{p:.4f} | {ours[n][0]:.4f}" for n, p in zip(names, numbers, strict=True)]
            lines.append(f"| {row} | " + " | ".join(cells) + " |")
    with (out / "table.md").open("a") as handle:
        handle.write("\n".join(lines) + "\n")
    print("\n".join(lines))
