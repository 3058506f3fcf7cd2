"""Tables and rates as a card writes them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from model.types import Rate


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """A Markdown table."""
    lines = [head, tuple("---" for _ in head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def counted(rate: Rate | None, words: Callable[[Rate], str]) -> tuple[str, str]:
    """A rate and the number of pairs it was counted on."""
    return (words(rate), f"{rate.trials:,}") if rate else ("", "none")


def rate_in_words(rate: Rate) -> str:
    """A small error rate and its interval."""
    return f"{rate.value:.1e} [{rate.low:.1e}, {rate.high:.1e}]"


def percent(rate: Rate) -> str:
    """A larger error rate and its interval."""
    return f"{rate.value:.1%} [{rate.low:.1%}, {rate.high:.1%}]"
