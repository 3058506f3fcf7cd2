"""Setup that must run before Gradio is imported: a private temporary folder, and no telemetry."""

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
    """Lock the folder until this process ends; None if another process holds or deleted it.

    Raises:
        OSError: The file system does not support locks.
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
        # Between our open and lock, another server locked the file and deleted it.
        os.close(held)
        return None
    return held


def sweep(place: Path) -> list[Path]:
    """Delete the private folders in ``place`` that killed servers of this user left behind.

    A running server holds a lock on its folder, so process ids do not matter.
    """
    swept = []
    for folder in place.glob(PREFIX + "*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
                continue
            # A folder without a lock file is just being created, or belongs to another program.
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
        # A server that starts at the same time may delete the folder before it is locked.
        return made if _claim(made) is not None else _make()
    except OSError:
        # Without locks, folders in use cannot be told from stale ones, so none are deleted.
        return made


sweep(Path(tempfile.gettempdir()))
FOLDER = _make()
"""Temporary folder for uploads; only this system user has access."""

atexit.register(shutil.rmtree, FOLDER, ignore_errors=True)

os.environ["GRADIO_TEMP_DIR"] = str(FOLDER)
os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
os.environ["GRADIO_RUN_HISTORY"] = "False"
os.environ["HF_HUB_DISABLE_TELEMETRY"] = "1"


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """Provide the folder while the page is served; delete it afterwards, also after a signal."""
    FOLDER.mkdir(mode=0o700, parents=True, exist_ok=True)
    with contextlib.suppress(OSError):
        _claim(FOLDER)
    try:
        yield FOLDER
    finally:
        shutil.rmtree(FOLDER, ignore_errors=True)


def discard(path: str | None) -> None:
    """Delete an uploaded file, if there is one; never deletes anything outside the folder."""
    if path is not None and Path(path).resolve().is_relative_to(FOLDER.resolve()):
        with contextlib.suppress(OSError):
            Path(path).unlink()
