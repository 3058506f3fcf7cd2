"""Runs for comparing losses, and hyperparameter selection within the training part.

Every loss gets the same number of trials. A trial is a learning rate, a proxy learning rate and one
option of the loss; the first has the values of the command line and of the loss's paper. Nine
trials make a Graeco-Latin square: every value of one setting meets every value of the others once.
Trials are judged by cross-validation within the training part: over pictures if test shares the
classes, else over classes. The test part is not used.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from training.errors import UsageError
from training.learn.loop import Job
from training.learn.recipe import Recipe, differing
from training.learn.task import Task
from training.losses import CHOICES, build
from training.measure import metrics
from training.measure.proxy_geometry import proxy_geometry
from training.splits import Split

RATES = (1.0, 3.0, 10.0)
PROXY_RATES = (1.0, 0.1, 10.0)
"""Factors on the recipe's learning rates (``RATES`` on ``lr``)."""


@dataclass(frozen=True)
class Trial:
    recipe: Recipe
    options: dict[str, Any]


def run_one(
    task: Task, name: str, recipe: Recipe, out: Path, *, dim: int = 512, part: str = "test",
    proxy_init: str = "random", options: dict[str, Any] | None = None, replicates: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Train and evaluate once, or read the results of a finished run.

    Raises:
        UsageError: ``out`` has a run with other settings.
    """
    settings = {
        **task.settings(name, dim, proxy_init, options), "recipe": asdict(recipe), "part": part,
        "replicates": replicates,
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
    # A trial needs no learning curve, and on cached features one takes longer than the training.
    curve = part == "test" and task.features is None
    job.evaluate_every = max(1, recipe.epochs // 10) if curve else recipe.epochs
    if task.features is not None:
        job.checkpoint_every = job.total  # Takes a minute: one checkpoint at the end is enough.
    if (out / "last.pt").is_file():
        job.load()
    history = job.run()
    report = metrics.evaluate(*task.embeddings(job.result, part), replicates=replicates)
    epochs = job.step / job.per_epoch
    result = {
        **settings, **report, "history": history, "geometry": _geometry(task, job),
        "seconds_per_epoch": job.seconds / epochs,
        "processor_seconds_per_epoch": job.processor_seconds / epochs, "epochs": epochs,
    }  # fmt: skip
    done.write_text(json.dumps(result, indent=1))
    (out / "last.pt").unlink()
    return result


def trials(name: str, base: Recipe, count: int, options: Mapping[str, Any]) -> list[Trial]:
    """The trials of a loss, the given settings first; rates are the same for every loss.

    Raises:
        UsageError: ``count`` is more than nine.
    """
    if count > len(RATES) * len(PROXY_RATES):
        raise UsageError(f"--choose {count}: there are only nine trials.")
    option, values = CHOICES[name]
    if option in options:
        values = (options[option],)
    proxies = PROXY_RATES if build(name, 2, 2).proxies is not None else PROXY_RATES[:1]
    made = []
    for number in range(count):
        line, place = divmod(number, len(RATES))
        proxy = proxies[(place + 2 * line) % len(proxies)]
        value = values[(place + line) % len(values)]
        rates = {"lr": base.lr * RATES[place], "proxy_lr": base.proxy_lr * proxy}
        made.append(Trial(replace(base, **rates), {**options, option: value}))
    return made


def folds(task: Task, count: int) -> list[Task]:
    """Split the training part into ``train`` and ``val``, once per fold.

    Raises:
        UsageError: The training part is too small to split.
    """
    rows = task.split.train
    labels = task.table.labels[rows]
    shared = bool(set(labels) & set(task.table.labels[task.split.test]))
    rng = np.random.default_rng(0)
    fold = np.empty(len(rows), np.int64)
    if shared:
        for label in np.unique(labels):
            own = np.flatnonzero(labels == label)
            fold[own] = rng.permutation(np.arange(len(own)) + rng.integers(count)) % count
    else:
        classes = rng.permutation(np.unique(labels))
        for index in range(count):
            fold[np.isin(labels, classes[index::count])] = index
    what = "pictures" if shared else "classes"
    made = []
    for index in range(count):
        train, val = rows[fold != index], rows[fold == index]
        note = f"fold {index + 1} of {count} over the training {what}; its val stands in for test"
        parts = Split(task.split.name, train, val, val, note)
        parts.check_val(task.table)
        made.append(replace(task, split=parts))
    return made


def choose(
    task: Task, name: str, tried: list[Trial], out: Path, *, count: int = 2, **settings: Any
) -> tuple[Trial, list[dict[str, Any]]]:
    """The trial with the highest mean R@1 over ``count`` folds, and the results of all trials.

    ``settings`` are further arguments of :func:`run_one`.
    """
    rows = []
    parts = folds(task, count)
    for number, trial in enumerate(tried):
        found = [
            run_one(
                part, name, trial.recipe, out / f"{name}-{number}-{fold}", part="val",
                options=trial.options, **settings,
            )["metrics"]
            for fold, part in enumerate(parts)
        ]  # fmt: skip
        rows.append({
            "loss": name, "lr": trial.recipe.lr, "proxy_lr": trial.recipe.proxy_lr,
            **{k: v for k, v in trial.options.items() if k == CHOICES[name][0]},
            "R@1": float(np.mean([each["R@1"]["value"] for each in found])),
            "d_prime": float(np.mean([each["d_prime"]["value"] for each in found])),
        })  # fmt: skip
    best = int(np.argmax([row["R@1"] for row in rows]))
    for number, row in enumerate(rows):
        row["chosen"] = number == best
    return tried[best], rows


def _geometry(task: Task, job: Job) -> dict[str, float]:
    """Proxy geometry on the training set; empty for a loss without proxies."""
    if job.loss.proxies is None:
        return {}
    proxies = job.loss.proxies.T if job.loss.transposed else job.loss.proxies
    vectors = torch.from_numpy(task.embeddings(job.result, "train")[0])
    return proxy_geometry(vectors, torch.from_numpy(job.labels), proxies.cpu())
