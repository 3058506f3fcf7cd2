"""``python -m app.enroll``: the same as ``python -m app enroll``."""

from __future__ import annotations

import sys

from app.cli.enroll import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
