"""Command-line errors and argparse types."""

from __future__ import annotations

import argparse

from model.errors import FaceError

STOPPED = (
    "\nstopped at step {step:,}; the same command with --resume goes on from the last checkpoint"
)
"""Message of an interrupted run."""


class UsageError(FaceError, ValueError):
    """An invalid setting; the message names it and the allowed values."""

    code = "usage_error"


def positive(text: str) -> int:
    """Argparse type: an integer of at least 1."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)


def natural(text: str) -> int:
    """Argparse type: an integer of at least 0."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 0")
    return int(text)


def share(text: str) -> float:
    """Argparse type: a number from 0 to 1."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 0 to 1")
    return value
