"""A real Milvus server for the tests: started, killed and started again on the same data."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from pathlib import Path


class MilvusServer:
    """The standalone server of the package ``milvus`` on a free port of this machine."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder
        self._process: subprocess.Popen | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]

    def url(self, collection: str, **options: str) -> str:
        query = "&".join(f"{name}={value}" for name, value in options.items())
        return f"milvus://127.0.0.1:{self.port}/{collection}?{query}".rstrip("?")

    def start(self, timeout: float = 180.0) -> float:
        """Starts the server and waits until it answers; returns the seconds that took."""
        from pymilvus import MilvusClient
        from pymilvus.exceptions import MilvusException

        begin = time.monotonic()
        with open(self._folder / "server.log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._program,
                    "--data",
                    str(self._folder / "data"),
                    "--proxy-port",
                    str(self.port),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        while time.monotonic() - begin < timeout:
            try:
                client = MilvusClient(uri=f"http://127.0.0.1:{self.port}", timeout=2)
                client.list_collections()
                client.close()
                return time.monotonic() - begin
            except MilvusException:
                time.sleep(1)
        self.kill()
        raise RuntimeError(f"Milvus did not start; see {self._folder / 'server.log'}")

    def kill(self) -> None:
        """Ends the server the hard way, with everything it started."""
        # The starter may be gone while the server it started is not.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        """Ends the server, politely first."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(timeout=20)
        self.kill()
