"""Runs of ``fit`` that differ only in loss and seed, for the card's table.

A run with ``--loss-weight 0`` is the control: the same steps without a metric loss.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from training.errors import UsageError
from training.learn.recipe import differing

NEEDED = ("dataset", "split", "loss", "n", "classes", "metrics")
ALIKE = (
    "dataset", "split", "init", "recipe", "budget", "dim", "proxy_init",
    "keep_run", "keep_faces", "keep_left_out", "keep_weight",
)  # fmt: skip
CONTROL = "none, the teacher's term alone"


def read_compared(runs: Sequence[Path]) -> tuple[tuple[dict[str, Any], ...], bool]:
    """The results of each run for the card, and whether all runs record all of :data:`ALIKE`.

    Runs of an older ``fit`` lack some of these settings; only those both have are compared.

    Raises:
        UsageError: A run is unfinished, has other settings, or is given twice.
    """
    results = [_read(run) for run in runs]
    for (run, result), (other, its) in combinations(zip(runs, results, strict=True), 2):
        if differ := differing(_common(result, its), _common(its, result)):
            raise UsageError(
                f"{other} has another {', '.join(differ)} than {run}: not to be compared."
            )
        if title(result) == title(its) and _seed(run, result) == _seed(other, its):
            raise UsageError(f"{other} is {title(its)} with the same seed as {run}: leave one out.")
    names = (*NEEDED, "loss_options", "loss_weight")
    told = tuple({name: result[name] for name in names} for result in results)
    return told, all(name in result for result in results for name in ALIKE)


def title(result: Mapping[str, Any]) -> str:
    """The loss of a run with its options, such as ``pd temperature=0.5``, or :data:`CONTROL`."""
    if result["loss_weight"] == 0:
        return CONTROL
    options = result["loss_options"]
    return " ".join([result["loss"], *(f"{name}={options[name]}" for name in sorted(options))])


def _read(run: Path) -> dict[str, Any]:
    file = run / "results.json"
    if not file.is_file():
        raise UsageError(f"{run} holds no finished run of fit: it has no {file.name}.")
    result = json.loads(file.read_text(encoding="utf-8"))
    if missing := [name for name in NEEDED if name not in result]:
        raise UsageError(f"{file} is not of fit: it lacks {', '.join(missing)}.")
    weight = result.get("recipe", {}).get("loss_weight", 1.0)
    return {"loss_options": {}, "loss_weight": weight, **result}


def _common(result: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of ``result`` that must be equal and that both runs record."""
    both = {name: result[name] for name in ALIKE if name in result and name in other}
    control = 0 in (result["loss_weight"], other["loss_weight"])
    aside = {"seed", "loss_weight"} if control else {"seed"}
    recipe = {name: value for name, value in both.get("recipe", {}).items() if name not in aside}
    return {**both, "recipe": recipe}


def _seed(run: Path, result: Mapping[str, Any]) -> object:
    """The seed, or the folder if the run does not record its seed."""
    return result["recipe"]["seed"] if "recipe" in result else run.resolve()
