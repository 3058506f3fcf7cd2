"""Losses: one line each. ``LOSSES[name](classes, dim, **options)`` is ready to train with."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from training.errors import UsageError
from training.losses.base import MetricLoss
from training.losses.cllr import CllrLoss
from training.losses.d import DLoss
from training.losses.library import arcface, circle, multi_similarity, proxy_anchor, proxy_nca
from training.losses.pd import PDLoss

LOSSES: dict[str, Callable[..., MetricLoss]] = {
    "pd": PDLoss,
    "pd_nolog": partial(PDLoss, log=False),
    "pd_scheduled": partial(PDLoss, epsilon=1e-1, last_epsilon=1e-3),
    "pd_one_sided": partial(PDLoss, form="direct", one_sided=True),
    "cllr": CllrLoss,
    "d": lambda classes, dim: DLoss(),
    "proxy_nca": proxy_nca,
    "proxy_anchor": proxy_anchor,
    "multi_similarity": multi_similarity,
    "circle": circle,
    "arcface": arcface,
}

__all__ = ["LOSSES", "CllrLoss", "DLoss", "MetricLoss", "PDLoss", "build"]


def build(name: str, classes: int, dim: int, **options: Any) -> MetricLoss:
    """A loss by name.

    Args:
        name: A key of :data:`LOSSES`.
        classes: Number of classes.
        dim: Length of the embeddings.
        **options: The loss's own, such as ``temperature`` for ``pd``.

    Raises:
        UsageError: No such loss or option, or one of the wrong kind; the message names those
            there are.
    """
    if name not in LOSSES:
        raise UsageError(_unknown("loss", name, list(LOSSES)))
    allowed = list(inspect.signature(LOSSES[name]).parameters)[2:]
    for option in options:
        if option not in allowed:
            raise UsageError(_unknown(f"option of {name}", option, allowed))
    try:
        return LOSSES[name](classes, dim, **options)
    except TypeError as error:
        raise UsageError(f"{name} cannot be built with {options}: {error}") from error


def _unknown(what: str, given: str, allowed: list[str]) -> str:
    close = difflib.get_close_matches(given, allowed, 1)
    hint = f"; did you mean {close[0]!r}?" if close else "."
    return f"{given!r} is no {what}{hint} There are: {', '.join(allowed) or 'none'}"
