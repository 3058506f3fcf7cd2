"""What the command line prints last: errors, and an exit code when printing fails."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

from app.cli.exit_codes import OTHER, Unexpected, code_of
from model.errors import FaceError


def heard(work: Callable[[], int]) -> int:
    """The exit code of some work, unless what it printed could not be written.

    An answer that nobody heard must not be taken for a verdict.
    """
    try:
        code = work()
        if sys.stdout is not None:  # it is None where it was closed from the start
            sys.stdout.flush()
        return code
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"The answer cannot be written: {error.strerror}.", file=sys.stderr)
        if sys.stdout is not None:
            # What is left to print goes nowhere, or Python would complain when it ends.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OTHER


def failed(error: Exception, *, as_json: bool = False) -> int:
    """Say what went wrong; returns the exit code.

    Args:
        error: Any. Left alone, Python would end with 1, which means "different people" here.
        as_json: Print the API's form of the error to standard output as well.
    """
    known = error if isinstance(error, FaceError) else _unexpected(error)
    print(known.message, file=sys.stderr)
    if as_json:
        from app.web.errors import described

        body = described(known.code, known.message, known.details)
        print(json.dumps(body, indent=2, ensure_ascii=False, default=str))
    return code_of(known)


def _unexpected(error: Exception) -> Unexpected:
    if sys.flags.dev_mode:
        traceback.print_exception(error)
    words = " ".join(f"{type(error).__name__}: {error}".split())
    return Unexpected(f"Something went wrong here: {words}. Run python -X dev -m app to see where.")
