"""Mistakes on the command line."""

from __future__ import annotations

import argparse

from model.errors import FaceError

STOPPED = (
    "\nstopped at step {step:,}; the same command with --resume goes on from the last checkpoint"
)
"""What a run says that was interrupted."""


class UsageError(FaceError, ValueError):
    """A setting that cannot be used; the sentence names it and what is allowed."""

    code = "usage_error"


def positive(text: str) -> int:
    """A whole number from 1 on, for argparse."""
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 1 on")
    return int(text)


def natural(text: str) -> int:
    """A whole number from 0 on, for argparse."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)
