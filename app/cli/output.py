"""Print errors, and return an exit code that also reports failed output."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable

from app.cli.exit_codes import OTHER, Unexpected, code_of
from model.errors import FaceError


def heard(work: Callable[[], int]) -> int:
    """Run ``work``, flush, and return 8 if the output could not be written.

    A lost result must not look like a verdict.
    """
    try:
        code = work()
        if sys.stdout is not None:  # None if it was closed at start
            sys.stdout.flush()
        return code
    except OSError as error:
        if not isinstance(error, BrokenPipeError):
            print(f"The answer cannot be written: {error.strerror}.", file=sys.stderr)
        if sys.stdout is not None:
            # Discard the remaining output, or Python prints an error at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OTHER


def failed(error: Exception, *, as_json: bool = False) -> int:
    """Print an error and return its exit code.

    Args:
        error: Any exception. Uncaught, Python would exit with 1, which means "different people".
        as_json: Also print the error to standard output, as the API's JSON.
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
