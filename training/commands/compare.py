"""``python -m training compare``: compare several losses under one budget in one table."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from model.arguments import natural, positive
from training.commands.fit import add_recipe_arguments, parse_options, recipe_of
from training.errors import UsageError
from training.learn.recipe import Recipe
from training.learn.run_log import write_csv
from training.learn.task import Task, add_task_arguments, make_task
from training.learn.trials import Trial, choose, run_one, trials
from training.losses import LOSSES
from training.measure import metrics
from training.measure.retrieval import KS
from training.report import plots
from training.report.html_page import png
from training.splits import split_name

PAPER_LOSSES = "pd,proxy_nca,proxy_anchor,multi_similarity,circle"
COLUMNS = (*(f"R@{k}" for k in KS), "d_prime", "eer")
# On a CPU report processor time: other programs slow down the wall clock. A GPU is not shared.
CLOCK = "" if torch.cuda.is_available() else "processor_"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_task_arguments(parser)
    add_recipe_arguments(parser)
    parser.add_argument("--losses", default=PAPER_LOSSES, help="comma-separated, or all")
    parser.add_argument("--seeds", type=positive, default=3, help="how many, from --seed on")
    parser.add_argument("--dim", type=positive, default=512)
    parser.add_argument("--choose", type=natural, default=0, metavar="TRIALS",
                        help="choose rate, proxy rate and one option of every loss with this many "
                        "trials each, by cross-validation inside the training part; 0 takes the "
                        "recipe as it is")  # fmt: skip
    parser.add_argument("--choose-epochs", type=positive, metavar="EPOCHS",
                        help="epochs of a trial; default: as many as the run")  # fmt: skip
    parser.add_argument("--folds", type=positive, default=2, help="of the cross-validation")
    parser.add_argument("--replicates", type=natural, default=0,
                        help="bootstrap samples over classes for an interval of R@1 and d' "
                        "of the first seed; 0 for none")  # fmt: skip
    parser.add_argument("--proxy-init", default="random", choices=["random", "class_mean"])
    parser.add_argument("--loss-option", action="append", default=[], metavar="NAME=VALUE",
                        help="an option that all of --losses have, as pd epsilon=1e-4")  # fmt: skip
    parser.add_argument("--part", default="test", choices=["val", "test"],
                        help="what to report on; val to choose between variants")  # fmt: skip
    parser.add_argument("--out", type=Path, required=True)


def run(args: argparse.Namespace) -> int:
    names = list(LOSSES) if args.losses == "all" else args.losses.split(",")
    strangers = [name for name in names if name not in LOSSES]
    if strangers:
        raise UsageError(f"There is no loss {strangers[0]!r}. There are: {', '.join(LOSSES)}.")
    base = recipe_of(args)
    task = make_task(args)
    results: dict[str, list[dict[str, Any]]] = {}
    tried: list[dict[str, Any]] = []
    settings = {"dim": args.dim, "proxy_init": args.proxy_init}
    for name in names:
        best = Trial(base, parse_options(args.loss_option))
        if args.choose:
            best, rows = _chosen(task, name, base, args, **settings)
            tried += rows
        recipes = [replace(best.recipe, seed=base.seed + number) for number in range(args.seeds)]
        results[name] = [
            run_one(
                task, name, each, args.out / f"{name}-{each.seed}", part=args.part,
                options=best.options, replicates=0 if number else args.replicates, **settings,
            )
            for number, each in enumerate(recipes)
        ]  # fmt: skip
        print(_line(f"{task.split.name}, {args.part}, {name}", results[name]), flush=True)
    data = f"{task.table.name}, {task.split.describe(task.table)}"
    caption = "; ".join([data, task.budget, *args.loss_option])
    before = untrained(task, base.seed, args.dim, args.part)
    write_table(args.out, results, caption, before=before, tried=tried)
    return 0


def _chosen(
    task: Task, name: str, base: Recipe, args: argparse.Namespace, **settings: Any
) -> tuple[Trial, list[dict[str, Any]]]:
    """A loss's best trial, with the full number of epochs, and the results of all trials."""
    short = replace(base, epochs=args.choose_epochs or base.epochs)
    tries = trials(name, short, args.choose, parse_options(args.loss_option))
    best, rows = choose(task, name, tries, args.out / "choose", count=args.folds, **settings)
    return replace(best, recipe=replace(best.recipe, epochs=base.epochs)), rows


def untrained(task: Task, seed: int, dim: int, part: str) -> dict[str, Any]:
    """Metrics of the initial network, which is the same for every loss with this seed."""
    torch.manual_seed(seed)
    return metrics.evaluate(*task.embeddings(task.network(dim), part), replicates=0)


def write_table(
    out: Path, results: Mapping[str, Sequence[Mapping[str, Any]]], caption: str,
    title: str = "loss", before: Mapping[str, Any] | None = None,
    tried: Sequence[Mapping[str, Any]] = (),
) -> None:  # fmt: skip
    """Write the means to ``table.md``, every run to ``runs.csv``, and two plots.

    ``results`` are runs of :func:`run_one` by row, ``before`` is the report of :func:`untrained`
    and ``tried`` the trials of :func:`~training.learn.trials.choose`.
    """
    rows = {name: statistics(runs) for name, runs in results.items()}
    runs = max(len(values) for values in results.values())
    sizes = next(iter(results.values()))[0]
    batches = sorted({run["recipe"]["batch"] for values in results.values() for run in values})
    clock = f"{CLOCK.replace('_', ' ')}s/epoch"
    lines = [
        f"{caption}; {sizes['part']}, n = {sizes['n']:,}; {sizes['epochs']:.0f} epochs, "
        f"batch {' / '.join(map(str, batches))}; "
        + (f"mean and standard deviation over {runs} seeds." if runs > 1 else "one seed."),
        "",
        f"| {title} | lr | " + " | ".join((*COLUMNS, clock)) + " |",
        "|" + "---|" * (len(COLUMNS) + 3),
    ]
    if before is not None:
        cells = [_cell(before["metrics"][c]["value"], 0, 1) for c in COLUMNS]
        lines.append("| untrained | | " + " | ".join(cells) + " | |")
    for name, row in rows.items():
        first = results[name][0]
        rate = first["recipe"]["lr"]
        cells = [_cell(*row[c], runs) + _interval(results[name][0], c) for c in COLUMNS]
        seconds = _cell(*row[f"{CLOCK}seconds_per_epoch"], runs, digits=2)
        lines.append(f"| {name} | {rate:g} | " + " | ".join((*cells, seconds)) + " |")
    out.mkdir(parents=True, exist_ok=True)
    if any("low" in run["metrics"]["R@1"] for values in results.values() for run in values):
        lines[0] += " In brackets: 95% interval over classes drawn anew, first seed."
    (out / "table.md").write_text("\n".join([*lines, *_tried_table(tried)]) + "\n")
    write_csv(
        out / "runs.csv", [run_row(n, run) for n, values in results.items() for run in values]
    )
    drawings = {
        "recall_at_1.png": plots.dots(
            {n: row["R@1"] for n, row in rows.items()},
            "R@1",
            lines[0],
            before["metrics"]["R@1"]["value"] if before else None,
        ),
        "curves.png": plots.histories({n: values[0]["history"] for n, values in results.items()}),
    }
    for name, drawing in drawings.items():
        (out / name).write_bytes(png(drawing))
    print("\n".join(lines))


def statistics(runs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation of every column over the seeds (0 for one seed)."""
    table = {name: [run["metrics"][name]["value"] for run in runs] for name in COLUMNS}
    for name in ("seconds_per_epoch", "processor_seconds_per_epoch"):
        table[name] = [run[name] for run in runs]
    return {
        name: (float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        for name, values in table.items()
    }


def run_row(name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    figures = {column: round(run["metrics"][column]["value"], 5) for column in COLUMNS}
    seconds = round(run["processor_seconds_per_epoch"], 3)
    return {
        "name": name, "seed": run["recipe"]["seed"], "lr": run["recipe"]["lr"],
        "split": split_name(run["split"]), "part": run["part"], "n": run["n"], **figures,
        "processor_seconds_per_epoch": seconds,
        **{name: round(value, 4) for name, value in run["geometry"].items()},
    }  # fmt: skip


def _tried_table(tried: Sequence[Mapping[str, Any]]) -> list[str]:
    """A table of all trials, with the chosen ones marked."""
    if not tried:
        return []
    known = ("loss", "lr", "proxy_lr", "R@1", "d_prime", "chosen")
    lines = [
        "", "Trials, by cross-validation inside the training part; the chosen ones are marked.", "",
        "| loss | lr | proxy lr | option | R@1 | d' | chosen |", "|---|---|---|---|---|---|---|",
    ]  # fmt: skip
    for row in tried:
        option = ", ".join(f"{name} {value:g}" for name, value in row.items() if name not in known)
        lines.append(
            f"| {row['loss']} | {row['lr']:g} | {row['proxy_lr']:g} | {option} "
            f"| {row['R@1']:.4f} | {row['d_prime']:.2f} | {'yes' if row['chosen'] else ''} |"
        )
    return lines


def _interval(run: Mapping[str, Any], column: str) -> str:
    """The interval as `` [low, high]``, or an empty string."""
    entry = run["metrics"][column]
    return f" [{entry['low']:.3f}, {entry['high']:.3f}]" if "low" in entry else ""


def _cell(mean: float, spread: float, runs: int, digits: int = 4) -> str:
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if runs > 1 else "")


def _line(title: str, runs: Sequence[Mapping[str, Any]]) -> str:
    row = statistics(runs)
    return f"{title}: " + ", ".join(f"{c} {row[c][0]:.4f} ± {row[c][1]:.4f}" for c in COLUMNS)
