"""Types of command-line arguments, for argparse."""

from __future__ import annotations

from argparse import ArgumentTypeError


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def natural(text: str) -> int:
    if not text.isdecimal():
        raise ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def share(text: str) -> float:
    value = _number(text)
    if value is None or not 0 <= value <= 1:
        raise ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value


def rate(text: str) -> float:
    value = _number(text)
    if value is None or not 0 < value < 1:
        raise ArgumentTypeError(f"{text!r} is not a number above 0 and below 1")
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
