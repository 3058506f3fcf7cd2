"""Files that are whole or absent."""

from __future__ import annotations

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
