"""Run one measurement by its name."""

from __future__ import annotations

import importlib
import pkgutil
import sys

import tests.bench
from model.workers import be_quiet


def main(argv: list[str]) -> int:
    """Call ``main(argv)`` of the module of ``tests.bench`` that ``argv[0]`` names.

    Returns:
        Its exit status; 0 after help, 2 when there is no such measurement.
    """
    names = sorted(
        module.name
        for module in pkgutil.iter_modules(tests.bench.__path__)
        if not module.name.startswith("_")
    )
    if not argv or argv[0] not in names:
        print(f"usage: python -m tests.bench NAME [options]\nNAME: {', '.join(names)}")
        return 0 if argv and argv[0] in ("-h", "--help") else 2
    be_quiet()  # as the app does, before numpy is imported
    return importlib.import_module(f"tests.bench.{argv[0]}").main(argv[1:]) or 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
