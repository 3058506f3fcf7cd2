"""``python -m training compare``: several losses under one budget, one table."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.commands.fit import add_recipe_arguments, parse_options, recipe_of
from training.errors import UsageError, positive
from training.learn.loop import Job
from training.learn.recipe import Recipe, differing
from training.learn.run_log import write_csv
from training.learn.task import Task, add_task_arguments, make_task
from training.losses import LOSSES
from training.measure import metrics
from training.measure.proxy_geometry import proxy_geometry
from training.measure.retrieval import KS
from training.report import plots
from training.report.html_page import png
from training.splits import split_name

PAPER_LOSSES = "pd,proxy_nca,proxy_anchor,multi_similarity,circle"
COLUMNS = (*(f"R@{k}" for k in KS), "d_prime", "eer")
# Other programs slow a processor's clock time but not its processor time; a GPU is not shared.
CLOCK = "" if torch.cuda.is_available() else "processor_"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_task_arguments(parser)
    add_recipe_arguments(parser)
    parser.add_argument("--losses", default=PAPER_LOSSES, help="comma-separated, or all")
    parser.add_argument("--seeds", type=positive, default=3, help="how many, from --seed on")
    parser.add_argument("--dim", type=positive, default=512)
    parser.add_argument("--tune", type=learning_rates, default=[], metavar="LR,LR",
                        help="try these learning rates with the first seed and keep each loss's "
                        "best on val; the test part is not touched")  # fmt: skip
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
    settings = {
        "dim": args.dim, "proxy_init": args.proxy_init, "options": parse_options(args.loss_option),
    }  # fmt: skip
    for name in names:
        recipe = tuned(task, name, base, args.tune, args.out, **settings) if args.tune else base
        recipes = [replace(recipe, seed=base.seed + number) for number in range(args.seeds)]
        results[name] = [
            run_one(task, name, each, args.out / f"{name}-{each.seed}", part=args.part, **settings)
            for each in recipes
        ]
        print(_line(f"{task.split.name}, {args.part}, {name}", results[name]), flush=True)
    data = f"{task.table.name}, {task.split.describe(task.table)}"
    caption = "; ".join([data, task.budget, *args.loss_option])
    write_table(args.out, results, caption, before=untrained(task, base.seed, args.dim, args.part))
    return 0


def tuned(
    task: Task, name: str, base: Recipe, rates: Sequence[float], out: Path, **settings: Any
) -> Recipe:
    """The recipe with the learning rate that gives the best R@1 on val."""
    scores = {}
    for rate in rates:
        recipe = replace(base, lr=rate)
        folder = out / "tune" / f"{name}-{rate:g}"
        result = run_one(task, name, recipe, folder, part="val", **settings)
        scores[rate] = result["metrics"]["R@1"]["value"]
    best = max(scores, key=scores.__getitem__)
    return replace(base, lr=best)


def untrained(task: Task, seed: int, dim: int, part: str) -> dict[str, Any]:
    """Figures of the network every loss starts from with this seed."""
    torch.manual_seed(seed)
    return metrics.evaluate(*task.embeddings(task.network(dim), part), replicates=0)


def run_one(
    task: Task, name: str, recipe: Recipe, out: Path, *, dim: int = 512, part: str = "test",
    proxy_init: str = "random", options: dict[str, Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Train once and evaluate once; a finished run is read back instead.

    Raises:
        UsageError: ``out`` holds a run with other settings.
    """
    settings = {
        **task.settings(name, dim, proxy_init, options), "recipe": asdict(recipe), "part": part,
    }  # fmt: skip
    done = out / "results.json"
    if done.is_file():
        result = json.loads(done.read_text())
        differ = differing(result, settings)
        if differ:
            raise UsageError(
                f"{out} holds a run with other settings: {', '.join(differ)}. Choose another --out."
            )
        return result
    job = task.job(name, recipe, dim, out, proxy_init=proxy_init, options=options, progress=False)
    job.evaluate_every = max(1, recipe.epochs // 10)
    if (out / "last.pt").is_file():
        job.load()
    history = job.run()
    report = metrics.evaluate(*task.embeddings(job.result, part), replicates=0)
    epochs = job.step / job.per_epoch
    result = {
        **settings, **report, "history": history, "geometry": _geometry(task, job),
        "seconds_per_epoch": job.seconds / epochs,
        "processor_seconds_per_epoch": job.processor_seconds / epochs, "epochs": epochs,
    }  # fmt: skip
    done.write_text(json.dumps(result, indent=1))
    (out / "last.pt").unlink()
    return result


def write_table(
    out: Path, results: Mapping[str, Sequence[Mapping[str, Any]]], caption: str,
    title: str = "loss", before: Mapping[str, Any] | None = None,
) -> None:  # fmt: skip
    """Means in ``table.md``, every run in ``runs.csv``, and four figures.

    Args:
        out: Folder for them.
        results: Runs of :func:`run_one` by row.
        caption: Dataset, split, trunk and resolution.
        title: Heading of the first column.
        before: Report of :func:`untrained`, to stand above the others.
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
        rate = results[name][0]["recipe"]["lr"]
        cells = [_cell(*row[c], runs) for c in COLUMNS]
        seconds = _cell(*row[f"{CLOCK}seconds_per_epoch"], runs, digits=2)
        lines.append(f"| {name} | {rate:g} | " + " | ".join((*cells, seconds)) + " |")
    out.mkdir(parents=True, exist_ok=True)
    (out / "table.md").write_text("\n".join(lines) + "\n")
    write_csv(
        out / "runs.csv", [run_row(n, run) for n, values in results.items() for run in values]
    )
    recalls = {n: {k: rows[n][f"R@{k}"][0] for k in KS} for n in rows}
    drawings = {
        "recall.png": plots.recall_curves(recalls),
        "recall_at_1.png": plots.dots(
            {n: row["R@1"] for n, row in rows.items()},
            "R@1",
            lines[0],
            before["metrics"]["R@1"]["value"] if before else None,
        ),
        "seconds.png": plots.dots(
            {n: row[f"{CLOCK}seconds_per_epoch"] for n, row in rows.items()}, clock, lines[0]
        ),
        "curves.png": plots.histories({n: values[0]["history"] for n, values in results.items()}),
    }
    for name, drawing in drawings.items():
        (out / name).write_bytes(png(drawing))
    print("\n".join(lines))


def statistics(runs: Sequence[Mapping[str, Any]]) -> dict[str, tuple[float, float]]:
    """Mean and standard deviation (0 for one run) of every column over the seeds."""
    table = {name: [run["metrics"][name]["value"] for run in runs] for name in COLUMNS}
    for name in ("seconds_per_epoch", "processor_seconds_per_epoch"):
        table[name] = [run[name] for run in runs]
    return {
        name: (float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)
        for name, values in table.items()
    }


def _geometry(task: Task, job: Job) -> dict[str, float]:
    """Of the training set; nothing for a loss without proxies."""
    if job.loss.proxies is None:
        return {}
    proxies = job.loss.proxies.T if job.loss.transposed else job.loss.proxies
    vectors = torch.from_numpy(task.embeddings(job.result, "train")[0])
    return proxy_geometry(vectors, torch.from_numpy(job.labels), proxies.cpu())


def run_row(name: str, run: Mapping[str, Any]) -> dict[str, Any]:
    """One run as a line of ``runs.csv``."""
    figures = {column: round(run["metrics"][column]["value"], 5) for column in COLUMNS}
    seconds = round(run["processor_seconds_per_epoch"], 3)
    return {
        "name": name, "seed": run["recipe"]["seed"], "lr": run["recipe"]["lr"],
        "split": split_name(run["split"]), "part": run["part"], "n": run["n"], **figures,
        "processor_seconds_per_epoch": seconds,
        **{name: round(value, 4) for name, value in run["geometry"].items()},
    }  # fmt: skip


def learning_rates(text: str) -> list[float]:
    """``1e-4,1e-3``, for argparse."""
    return [float(value) for value in text.split(",")]


def _cell(mean: float, spread: float, runs: int, digits: int = 4) -> str:
    return f"{mean:.{digits}f}" + (f" ± {spread:.{digits}f}" if runs > 1 else "")


def _line(title: str, runs: Sequence[Mapping[str, Any]]) -> str:
    row = statistics(runs)
    return f"{title}: " + ", ".join(f"{c} {row[c][0]:.4f} ± {row[c][1]:.4f}" for c in COLUMNS)
