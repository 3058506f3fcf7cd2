"""``python -m training reproduce``: run an experiment of the paper and compare the numbers."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from model.arguments import positive
from training.commands.compare import statistics, write_table
from training.commands.fit import add_recipe_arguments, recipe_of
from training.distill import operating_point
from training.errors import UsageError
from training.learn.initial_weights import is_bundle
from training.learn.recipe import Recipe
from training.learn.task import Task, add_task_arguments, make_task
from training.learn.trials import run_one
from training.measure.retrieval import KS

Results = dict[str, list[dict[str, Any]]]


@dataclass(frozen=True)
class Variant:
    """One row of an experiment.

    Attributes:
        recipe: Training settings that differ from the command line's.
        settings: Further arguments of :func:`training.learn.trials.run_one`.
        longer: Factor on the epochs, for equal steps with larger batches.
    """

    loss: str = "pd"
    recipe: dict[str, Any] = field(default_factory=dict)
    settings: dict[str, Any] = field(default_factory=dict)
    longer: int = 1


@dataclass(frozen=True)
class Experiment:
    """One table or figure of the paper.

    Attributes:
        about: What the experiment varies.
        setting: The paper's settings.
        variants: What to train, by row of the table.
        paper: The paper's R@1, R@2, R@4 and R@8 by row; empty if it shows only a plot.
        trunk: The paper's trunk, used unless ``--trunk`` is given.
    """

    about: str
    setting: str
    variants: dict[str, Variant]
    paper: dict[str, tuple[float, ...]] = field(default_factory=dict)
    trunk: str = "resnet50"


EXPERIMENTS: dict[str, Experiment] = {
    "dloss_vs_pdloss": Experiment(
        "D-Loss, PD-Loss without and with the logarithm",
        "CUB val, ResNet18, EMB 256, BS 500, 300 epochs; a plot: pd above d, no log does not train",
        {name: Variant(name, {"batch": 500}, {"dim": 256}) for name in ("d", "pd_nolog", "pd")},
        trunk="resnet18",
    ),
    "batch_size": Experiment(
        "batch size 32 and 64, equal steps",
        "CUB val, EMB 512, 500 epochs; a plot: BS 64 slightly higher at the end",
        {f"BS {size}": Variant(recipe={"batch": size}, longer=size // 32) for size in (32, 64)},
    ),
    "init_temperature": Experiment(
        "proxy initialisation x temperature",
        "CUB val, ResNet50, EMB 512, BS 32, 500 epochs",
        {
            f"{start}, tau {tau:g}": Variant(
                settings={"proxy_init": start, "options": {"temperature": tau}}
            )
            for start in ("random", "class_mean")
            for tau in (0.1, 0.5, 1.0)
        },
        {
            "random, tau 0.1": (0.7629, 0.8229, 0.8664, 0.8975),
            "random, tau 0.5": (0.7784, 0.8386, 0.8785, 0.9075),
            "random, tau 1": (0.7794, 0.8352, 0.8757, 0.9104),
            "class_mean, tau 0.1": (0.7684, 0.8290, 0.8726, 0.9016),
            "class_mean, tau 0.5": (0.7742, 0.8371, 0.8802, 0.9063),
            "class_mean, tau 1": (0.7682, 0.8340, 0.8761, 0.9052),
        },
    ),
    "embedding_size": Experiment(
        "embedding size 256, 512, 1024",
        "CUB val, ResNet50, BS 32, 500 epochs",
        {f"EMB {dim}": Variant(settings={"dim": dim}) for dim in (256, 512, 1024)},
        {
            "EMB 256": (0.7641, 0.8381, 0.8964, 0.9355),
            "EMB 512": (0.7794, 0.8352, 0.8757, 0.9104),
            "EMB 1024": (0.7635, 0.8428, 0.9021, 0.9367),
        },
    ),
}
"""The main comparison is ``compare``; the plot of scores is ``fit``, then ``evaluate --run``."""

OURS = "operating_point"
"""Not of the paper: :mod:`training.distill.operating_point`."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("experiment", nargs="?", help="one of: " + ", ".join((*EXPERIMENTS, OURS)))
    add_task_arguments(parser, dataset="cub")
    add_recipe_arguments(parser)
    parser.add_argument("--seeds", type=positive, default=1, help="how many, from --seed on")
    parser.add_argument("--out", type=Path, help="default: runs/reproduce/DATASET")
    parser.add_argument("--faces", type=Path, nargs="+", default=[],
                        help=f"prepared stores to learn from, for {OURS}")  # fmt: skip
    parser.add_argument("--further-faces", type=Path, nargs="+", default=[],
                        help="stores of which only held-out people are used")  # fmt: skip
    parser.set_defaults(trunk=None)


def run(args: argparse.Namespace) -> int:
    if args.experiment is None:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:18} {experiment.about}\n{'':18} paper: {experiment.setting}")
        return 0
    if args.experiment == OURS:
        if not (args.faces and args.epochs and is_bundle(args.init)):
            raise UsageError(f"{OURS} needs --faces, --epochs, and a bundle as --init.")
        out = args.out or Path("runs", OURS)
        start = operating_point.prepare_start(args.faces, args.further_faces, args.init, args.cache)
        operating_point.run(start, out, args.seeds, args.epochs)
        return 0
    if args.experiment not in EXPERIMENTS:
        raise UsageError(
            f"There is no experiment {args.experiment!r}. "
            f"There are: {', '.join((*EXPERIMENTS, OURS))}."
        )
    experiment = EXPERIMENTS[args.experiment]
    args.trunk = args.trunk or experiment.trunk
    recipe, task = recipe_of(args), make_task(args)
    out = (args.out or Path("runs/reproduce", args.dataset)) / args.experiment
    out.mkdir(parents=True, exist_ok=True)
    results = {
        row: _runs(task, variant, recipe, out / row, args.seeds)
        for row, variant in experiment.variants.items()
    }
    caption = f"{task.table.name}, {task.split.describe(task.table)}; {task.budget}"
    write_table(out, results, caption, title="ours")
    _beside(out, experiment, results)
    return 0


def _runs(
    task: Task, variant: Variant, base: Recipe, out: Path, seeds: int
) -> list[dict[str, Any]]:
    recipe = replace(base, **variant.recipe, epochs=base.epochs * variant.longer)
    recipe = replace(recipe, batch=min(recipe.batch, len(task.split.train)))
    return [
        run_one(task, variant.loss, replace(recipe, seed=seed), out / str(seed), **variant.settings)
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
