"""``python -m app``: serve the page and the API, or run one command.

Exit codes: verify returns 0 same, 1 different, 2 inconclusive; search returns 0 if every face is
known, else 1. Errors: 3 wrong usage or setting, 4 unusable photo, 5 several faces and none chosen,
6 refused by the gallery, 7 model, calibration or index not usable, 8 anything else, 130
interrupted.
"""

from __future__ import annotations

import sys

from model.workers import be_quiet


def run() -> int:
    """Entry point of the command ``face``."""
    be_quiet()  # before numpy is imported
    from app.cli.main import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
