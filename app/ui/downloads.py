"""Files to take home once: an address nobody can guess, good for one download or ten minutes, and
for whoever made the file alone."""

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
    """Files waiting to be fetched, each in a folder of its own behind a random address.

    Args:
        folder: Where the files wait; only this user may be able to enter it.
        seconds: How long a file waits; then it is deleted, fetched or not.
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
        """Let ``write`` make a file called ``name`` and offer it.

        Args:
            name: The file's name.
            write: Makes it.
            owner: The page's user who may fetch it (``gr.Request.username``).

        Returns:
            The file's address, its size in bytes, and what ``write`` returned.
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
                # The offer stays known: a download broken off is swept like an unused one.
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
        """Delete what nobody fetched in time, until nothing waits any more."""
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
