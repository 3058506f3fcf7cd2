"""Markdown tables and rates for the model card."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from model.types import Rate


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(rate: Rate | None, words: Callable[[Rate], str]) -> tuple[str, str]:
    """A formatted rate and its number of pairs."""
    return (words(rate), f"{rate.trials:,}") if rate else ("", "none")


def rate_in_words(rate: Rate) -> str:
    """A rate and its interval in scientific notation."""
    return f"{rate.value:.1e} [{rate.low:.1e}, {rate.high:.1e}]"


def percent(rate: Rate) -> str:
    """A rate and its interval in percent."""
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}]"
