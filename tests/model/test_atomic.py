"""Files that are whole or absent."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import numpy as np
import pytest

from model.atomic import made_whole


def test_a_file_appears_when_it_is_whole(tmp_path: Path) -> None:
    file = tmp_path / "new" / "x.npy"
    with made_whole(file) as partial:
        np.save(partial, np.arange(3))
        assert not file.exists()
    assert np.load(file).tolist() == [0, 1, 2]
    assert list(file.parent.iterdir()) == [file]


def test_an_interrupt_leaves_what_was_there(tmp_path: Path) -> None:
    file = tmp_path / "x.npy"
    file.write_bytes(b"old")

    def interrupted() -> None:
        with made_whole(file) as partial:
            partial.write_bytes(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert [each.read_bytes() for each in tmp_path.iterdir()] == [b"old"]


def test_only_its_owner_reads_a_private_file(tmp_path: Path) -> None:
    file = tmp_path / "x"
    before = os.umask(0)
    try:
        for private, mode in ((True, 0o600), (False, 0o666)):
            with made_whole(file, private=private) as partial:
                assert stat.S_IMODE(partial.stat().st_mode) == mode
                partial.write_bytes(b"new")
            assert stat.S_IMODE(file.stat().st_mode) == mode
    finally:
        os.umask(before)


def test_writers_of_one_file_do_not_disturb_each_other(tmp_path: Path) -> None:
    file = tmp_path / "x"
    with made_whole(file) as first:
        first.write_bytes(b"first")
        with made_whole(file) as second:
            second.write_bytes(b"second")
        assert file.read_bytes() == b"second"
    assert file.read_bytes() == b"first"


def test_what_is_written_is_on_disk_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, synced = tmp_path / "x", []
    sync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append((os.path.samestat(os.fstat(descriptor), tmp_path.stat()), file.exists()))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    with made_whole(file) as partial:
        partial.write_bytes(b"new")
    assert synced == [(False, False), (True, True)]
