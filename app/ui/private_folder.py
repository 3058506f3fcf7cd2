"""What must be decided before Gradio is imported: a private folder for its files, no telemetry."""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

PREFIX = "face-verification-"
LOCK = "in-use"


def _claim(folder: Path) -> int | None:
    """Lock the folder until this process ends; None when it is another's, or swept away meanwhile.

    Raises:
        OSError: This file system has no locks.
    """
    held = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(held)
        return None
    except OSError:
        os.close(held)
        raise
    if not os.fstat(held).st_nlink:
        # Between opening and locking another server had the lock, and deleted what it locked.
        os.close(held)
        return None
    return held


def sweep(place: Path) -> list[Path]:
    """Delete the private folders in ``place`` that servers of this user left when they were killed.

    A folder whose server is alive is locked, by whatever number its process has.
    """
    swept = []
    for folder in place.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            # One without a lock file is being made at this moment, or was made by another program.
            if not (folder / LOCK).exists():
                continue
            held = _claim(folder)
            if held is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(held)
                swept.append(folder)
    return swept


def _make() -> Path:
    made = Path(tempfile.mkdtemp(prefix=PREFIX))
    try:
        # A server that starts at the same moment may sweep it away before it is locked.
        return made if _claim(made) is not None else _make()
    except OSError:
        # Without locks nobody can tell the living from the dead, and nothing is swept.
        return made


sweep(Path(tempfile.gettempdir()))
FOLDER = _make()
"""Where uploads pass through; only this user can enter it."""

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

os.environ["GRADIO_TEMP_DIR"] = str(FOLDER)
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_RUN_HISTORY"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """The folder while the page is served; gone afterwards, also when a signal ends the server."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        _claim(FOLDER)
    try:
        yield FOLDER
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def discard(path: str | None) -> None:
    """Delete an uploaded file, if there is one; nothing outside the folder is ever touched."""
    if path is not None and Path(path).resolve().is_relative_to(FOLDER.resolve()):
        with contextlib.suppress(OSError):
            Path(path).unlink()
