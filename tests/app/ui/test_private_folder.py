"""The private folder of a server: swept after a crash, kept while it runs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app.ui import private_folder


def test_folders_of_dead_servers_are_swept_and_those_of_living_ones_stay(tmp_path: Path) -> None:
    script = "import runpy, sys; print(runpy.run_path(sys.argv[1])['FOLDER'], flush=True); input()"
    start = [sys.executable, "-c", script, private_folder.__file__]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    running = [
        subprocess.Popen(start, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(2)
    ]
    living, dead = (Path(each.stdout.readline().decode().strip()) for each in running)
    running[1].kill()
    running[1].wait()
    foreign = tmp_path / f"{private_folder.PREFIX}of-another-program"
    foreign.mkdir()
    (tmp_path / f"{private_folder.PREFIX}link").symlink_to(living)
    assert living.is_dir()
    assert dead.is_dir()
    assert private_folder.sweep(tmp_path) == [dead]
    assert living.is_dir()
    assert foreign.is_dir()
    assert not dead.exists()
    running[0].communicate(b"\n")
    assert not living.exists()


def test_a_folder_swept_before_it_was_locked_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(private_folder.tempfile, "tempdir", str(tmp_path))
    lock, swept = private_folder.fcntl.flock, []

    def another_server_first(held: int, how: int) -> None:
        if not swept:
            swept.append(None)
            swept[:] = private_folder.sweep(tmp_path)
        lock(held, how)

    monkeypatch.setattr(private_folder.fcntl, "flock", another_server_first)
    made = private_folder._make()
    assert made.is_dir()
    assert len(swept) == 1
    assert made not in swept


def test_nothing_but_an_upload_is_ever_discarded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, outside = tmp_path / "private" / "a.zip", tmp_path / "b.zip"
    inside.parent.mkdir()
    link = inside.with_name("link.zip")
    for file in (inside, outside):
        file.write_bytes(b"x")
    link.symlink_to(outside)
    monkeypatch.setattr(private_folder, "FOLDER", inside.parent)
    for path in (None, str(outside), str(link), str(inside.parent / ".." / "b.zip")):
        private_folder.discard(path)
    assert outside.exists()
    for path in (str(inside), str(inside), str(inside.parent)):
        private_folder.discard(path)
    assert not inside.exists()
    assert inside.parent.is_dir()
