"""One-time downloads: a random URL, valid for one download or ten minutes, and only for the user
who created the file."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import FileResponse, Response
from starlette.background import BackgroundTask

from app.web.callers import Caller
from app.web.errors import plain_answer

T = TypeVar("T")

LIFETIME_SECONDS = 600
PREFIX = "/page/download/"


class Downloads:
    """Files waiting for download, each in its own folder behind a random URL.

    Args:
        folder: Where the files are stored; only this system user may have access.
        seconds: Lifetime of a file; then it is deleted, downloaded or not.
    """

    def __init__(self, folder: Path, *, seconds: float = LIFETIME_SECONDS) -> None:
        self.folder = folder
        self.seconds = seconds
        self._offers: dict[str, tuple[Path, float, str | None]] = {}
        self._fetched: set[str] = set()
        self._lock = threading.Lock()
        self._sweeping = False
        self.router = APIRouter(include_in_schema=False)
        self.router.add_api_route(PREFIX + "{token}", self._fetch, methods=["GET"])

    def offer(self, name: str, write: Callable[[Path], T], owner: str | None) -> tuple[str, int, T]:
        """Create a file with ``write`` and offer it for download.

        Args:
            owner: The page's user who may download it (``gr.Request.username``).

        Returns:
            The file's URL, its size in bytes, and the return value of ``write``.
        """
        folder = Path(tempfile.mkdtemp(dir=self.folder))
        try:
            result = write(folder / name)
            size = (folder / name).stat().st_size
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        token = secrets.token_urlsafe(32)
        with self._lock:
            self._offers[token] = (folder / name, time.monotonic() + self.seconds, owner)
            if not self._sweeping:
                self._sweeping = True
                threading.Thread(target=self._sweep, daemon=True).start()
        return PREFIX + token, size, result

    def _fetch(self, request: Request, token: str) -> Response:
        caller: Caller = request.scope["caller"]
        with self._lock:
            file, _, owner = self._offers.get(token, (None, 0.0, None))
            if token in self._fetched or caller.principal is None or caller.user != owner:
                file = None
            elif file is not None:
                # Keep the entry, so that the file of an aborted download is deleted later too.
                self._fetched.add(token)
        if file is None:
            return plain_answer(404, "gone", "This download was used or has expired. Export again.")
        return FileResponse(
            file,
            filename=file.name,
            headers={"Cache-Control": "no-store"},
            background=BackgroundTask(shutil.rmtree, file.parent, ignore_errors=True),
        )

    def _sweep(self) -> None:
        """Delete expired files, until none are left."""
        while True:
            now = time.monotonic()
            with self._lock:
                old = [token for token, (_, until, _) in self._offers.items() if until <= now]
                self._fetched -= set(old)
                for token in old:
                    shutil.rmtree(self._offers.pop(token)[0].parent, ignore_errors=True)
                self._sweeping = bool(self._offers)
                if not self._sweeping:
                    return
                soonest = min(until for _, until, _ in self._offers.values())
            time.sleep(soonest - now)
