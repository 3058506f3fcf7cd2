"""Score files of other tools, read and written without losing a digit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from model.errors import CalibrationError
from tests.training.score_writers import write_bob, write_pyeer
from training.measure.score_files import read_bob, read_pyeer

SCORES = st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=20)


@given(SCORES, SCORES)
@settings(deadline=None, max_examples=50)
def test_what_is_written_is_what_is_read(tmp_path_factory, genuine, impostor) -> None:
    folder = tmp_path_factory.mktemp("scores")
    write_bob(folder / "both", np.array(genuine), np.array(impostor))
    write_pyeer(folder / "same", folder / "apart", np.array(genuine), np.array(impostor))
    for found in (read_bob(folder / "both"), read_pyeer(folder / "same", folder / "apart")):
        np.testing.assert_array_equal(found[0], genuine)
        np.testing.assert_array_equal(found[1], impostor)


def test_pyeer_scores_may_follow_other_columns(tmp_path: Path) -> None:
    (tmp_path / "same").write_text("a.png b.png 0.5\n\na.png c.png 0.25\n")
    (tmp_path / "apart").write_text("-1\n")
    genuine, impostor = read_pyeer(tmp_path / "same", tmp_path / "apart")
    assert genuine.tolist() == [0.5, 0.25]
    assert impostor.tolist() == [-1.0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 0.5\n2 0.25\n", "line 2"),
        ("1 0.5\n-1 high\n", "'high' is not a score"),
        ("1 nan\n", "'nan' is not a score"),
        ("\n", "is empty"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "scores.txt"
    file.write_text(text)
    with pytest.raises(CalibrationError, match=message):
        read_bob(file)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(CalibrationError, match=r"nowhere\.txt cannot be read"):
        read_bob(tmp_path / "nowhere.txt")
