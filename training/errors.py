"""Errors of the command line."""

from __future__ import annotations

from model.errors import FaceError

STOPPED = (
    "\nstopped at step {step:,}; the same command with --resume goes on from the last checkpoint"
)
"""Message of an interrupted run."""


class UsageError(FaceError, ValueError):
    """An invalid setting; the message names it and the allowed values."""

    code = "usage_error"
