"""``python -m training fit``: train a network with a loss on labelled pictures."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from model.arguments import natural, positive
from model.bundle import save_network
from model.embedding.network import EmbeddingNet
from training.distill.teacher_term import add_keep_arguments, keep_settings, keep_teacher
from training.errors import STOPPED, UsageError
from training.learn import checkpoint, distributed
from training.learn.loop import Job
from training.learn.recipe import PRESETS, Recipe, recipe
from training.learn.task import Task, add_task_arguments, make_task
from training.losses import LOSSES
from training.measure import metrics


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    add_task_arguments(parser)
    add_recipe_arguments(parser)
    parser.add_argument("--loss", default="pd", choices=list(LOSSES))
    parser.add_argument("--loss-option", action="append", default=[], metavar="NAME=VALUE",
                        help="an option of the loss, such as temperature=0.5")  # fmt: skip
    parser.add_argument("--proxy-init", default="random", choices=["random", "class_mean"])
    parser.add_argument("--shard-proxies", action="store_true",
                        help="divide the proxies among the processes of torchrun, for very many "
                        "people; pd and cllr only")  # fmt: skip
    parser.add_argument("--dim", type=positive, default=512, help="length of the embedding")
    parser.add_argument("--out", type=Path, required=True, help="folder of the run")
    parser.add_argument("--resume", action="store_true", help="go on from the last checkpoint")
    parser.add_argument("--evaluate-every", type=positive, default=1, metavar="EPOCHS")
    parser.add_argument("--checkpoint-every", type=natural, default=0, metavar="STEPS")
    parser.add_argument("--patience", type=natural, default=0,
                        help="evaluations without a better d' before stopping")  # fmt: skip
    add_keep_arguments(parser)


def add_recipe_arguments(parser: argparse.ArgumentParser) -> None:
    """Add ``--preset``, and an option to override each of its settings."""
    contents = "; ".join(f"{name}: {preset.in_words()}" for name, preset in PRESETS.items())
    parser.add_argument("--preset", default="paper", choices=list(PRESETS), help=contents)
    for name, kind in (
        ("epochs", int), ("batch", int), ("lr", float), ("weight-decay", float), ("clip", float),
        ("head-lr", float), ("proxy-lr", float), ("warmup", int), ("ema", float), ("seed", int),
        ("loss-weight", float),
    ):  # fmt: skip
        parser.add_argument(f"--{name}", type=kind, help="instead of the preset's")
    parser.add_argument("--precision", choices=["fp32", "bf16"])
    parser.add_argument("--compile", action="store_true", default=None)
    parser.add_argument("--freeze-bn", action="store_true", default=None)


def recipe_of(args: argparse.Namespace) -> Recipe:
    names = Recipe.__dataclass_fields__
    chosen = recipe(args.preset, **{name: getattr(args, name, None) for name in names})
    if chosen.loss_weight == 0 and getattr(args, "keep_run", None) is None:
        raise UsageError(
            "--loss-weight 0 leaves nothing to train with, unless fit has a --keep-run"
        )
    return chosen


def parse_options(pairs: list[str]) -> dict[str, Any]:
    """``["temperature=0.5"]`` to ``{"temperature": 0.5}``."""
    options: dict[str, Any] = {}
    for pair in pairs:
        name, _, value = pair.partition("=")
        try:
            options[name] = json.loads(value)
        except json.JSONDecodeError:
            options[name] = value
    return options


def run(args: argparse.Namespace) -> int:
    distributed.start()
    chosen = recipe_of(args)
    kept = keep_settings(args)
    if args.frozen and args.keep_run:
        raise UsageError("--keep-run needs pictures, which --frozen replaces by features")
    task = make_task(args)
    if args.patience:
        task.split.check_val(task.table)
    job = task.job(
        args.loss, chosen, args.dim, args.out,
        proxy_init=args.proxy_init, options=parse_options(args.loss_option),
        shard=args.shard_proxies,
    )  # fmt: skip
    job.evaluate_every, job.patience = args.evaluate_every, args.patience
    job.checkpoint_every = args.checkpoint_every
    job.extra = keep_teacher(args, task.preprocessing, job.recipe)
    job.settings |= kept
    if args.resume and job.file.is_file():
        job.load()
        print(f"resumed at step {job.step:,} of {job.total:,}")
    if job.rank == 0:
        args.out.mkdir(parents=True, exist_ok=True)
        settings = {name: value for name, value in vars(args).items() if name != "resume"}
        (args.out / "config.json").write_text(json.dumps(settings, indent=1, default=str))
    try:
        job.run()
    except KeyboardInterrupt:
        print(STOPPED.format(step=job.step))
        return 130
    if job.rank == 0:
        finish(task, job, args)
    distributed.stop()
    return 0


def finish(task: Task, job: Job, args: argparse.Namespace) -> dict[str, Any]:
    """Evaluate on test; write ``results.json``, the network and, for a whole network, a bundle."""
    net = job.result
    if job.patience and (job.out / "best.pt").is_file():
        best = checkpoint.load(job.out / "best.pt")
        net.load_state_dict(best["net"])
        print(f"kept epoch {best['epoch']}, the best on val")
    elif job.patience:
        print("kept the last epoch: the best on val came before --patience and was not saved")
    report = metrics.evaluate(*task.embeddings(net, "test"))
    result = {
        "dataset": task.table.name, "split": task.split.describe(task.table), "part": "test",
        "loss": args.loss, "loss_options": parse_options(args.loss_option),
        "proxy_init": args.proxy_init, "dim": args.dim, "budget": task.budget,
        "init": task.init, **keep_settings(args),
        "recipe": asdict(job.recipe), "seconds": round(job.seconds, 1),
        "seconds_per_epoch": round(job.seconds / max(1, job.step / job.per_epoch), 3), **report,
    }  # fmt: skip
    (args.out / "results.json").write_text(json.dumps(result, indent=1))
    checkpoint.save(args.out / "net.pt", {"net": net.state_dict()})
    if isinstance(net, EmbeddingNet):
        save_network(
            args.out / "bundle", net.eval(), task.preprocessing, name=args.out.name,
            card=f"# {args.out.name}\n\nTrained on {task.table.name} with {args.loss}.\n",
            provenance={"fit": asdict(job.recipe), "loss": args.loss, "data": task.table.name},
        )  # fmt: skip
    print(f"{task.table.name}, {task.split.name}, test, n = {report['n']:,}: ", end="")
    print(summary(report["metrics"]))
    return result


def summary(entries: Mapping[str, Any], style: str = ".4f") -> str:
    """Metrics of :func:`training.measure.metrics.evaluate` as ``R@1 0.512 [0.500, 0.530], ...``."""
    parts = []
    for name, entry in entries.items():
        if entry is None:
            parts.append(f"{name} not supported by n")
        elif "low" in entry:
            interval = f"[{entry['low']:{style}}, {entry['high']:{style}}]"
            parts.append(f"{name} {entry['value']:{style}} {interval}")
        else:
            parts.append(f"{name} {entry['value']:{style}}")
    return ", ".join(parts)
