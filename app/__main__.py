"""``python -m app``: serve the page and the API, or answer one question on the command line.

Exit codes: verify gives 0 same, 1 different, 2 inconclusive; search gives 0 when every face is
known, 1 when one is not. Errors: 3 wrong usage or setting, 4 a photo cannot be used, 5 several
faces and no choice, 6 the gallery refuses, 7 model, calibration or index not usable, 8 anything
else, 130 interrupted.
"""

from __future__ import annotations

import sys

from model.workers import be_quiet


def run() -> int:
    """The command ``face``."""
    be_quiet()  # before numpy is imported
    from app.cli.main import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(run())
