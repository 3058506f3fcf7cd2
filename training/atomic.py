"""Files that appear under their name only when they are whole."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def made_whole(path: Path) -> Iterator[Path]:
    """Where to write what becomes ``path`` in the end; a failure or Ctrl-C leaves nothing behind.

    The name holds the process: several may make the same file at once, and each leaves a whole one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.stem}.{os.getpid()}.partial{path.suffix}")
    try:
        yield partial
        os.replace(partial, path)
    finally:
        partial.unlink(missing_ok=True)
