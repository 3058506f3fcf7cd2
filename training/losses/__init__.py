"""Registry of losses. ``LOSSES[name](classes, dim, **options)`` builds one."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from training.errors import UsageError
from training.losses.base import MetricLoss
from training.losses.cllr import CllrLoss
from training.losses.d import DLoss, d_loss
from training.losses.library import arcface, circle, multi_similarity, proxy_anchor, proxy_nca
from training.losses.pd import PDLoss

LOSSES: dict[str, Callable[..., MetricLoss]] = {
    "pd": PDLoss,
    "pd_nolog": partial(PDLoss, log=False),
    "pd_scheduled": partial(PDLoss, epsilon=1e-1, last_epsilon=1e-3),
    "cllr": CllrLoss,
    "d": d_loss,
    "proxy_nca": proxy_nca,
    "proxy_anchor": proxy_anchor,
    "multi_similarity": multi_similarity,
    "circle": circle,
    "arcface": arcface,
}

CHOICES: dict[str, tuple[str, tuple[float, ...]]] = {
    "pd": ("epsilon", (1e-6, 1e-2, 1e-1)),
    "pd_nolog": ("epsilon", (1e-6, 1e-2, 1e-1)),
    "pd_scheduled": ("last_epsilon", (1e-3, 1e-2, 1e-4)),
    "cllr": ("prior", (0.02, 0.2, 0.002)),
    "d": ("samples_per_class", (4, 2, 8)),
    "proxy_nca": ("scale", (9.0, 3.0, 20.0)),
    "proxy_anchor": ("alpha", (32.0, 16.0, 64.0)),
    "multi_similarity": ("base", (0.5, 0.3, 0.7)),
    "circle": ("m", (0.4, 0.25, 0.6)),
    "arcface": ("margin", (0.5, 0.2, 0.1)),
}
"""The option of each loss that ``compare --choose`` tunes, and its values, the paper's first."""

__all__ = ["CHOICES", "LOSSES", "CllrLoss", "DLoss", "MetricLoss", "PDLoss", "build"]


def build(name: str, classes: int, dim: int, **options: Any) -> MetricLoss:
    """Build a loss by name.

    Raises:
        UsageError: Unknown loss or option, or an option of the wrong type; the message lists
            those that exist.
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
    return f"There is no {what} {given!r}{hint} There are: {', '.join(allowed) or 'none'}"
