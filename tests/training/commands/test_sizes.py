from __future__ import annotations

from pathlib import Path

import pytest

from tests.model.helpers import small_bundle
from tests.training.face_folders import made_up_people
from training.__main__ import main


def test_a_row_for_each_size_with_and_without_the_mirror_image(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made_up_people(tmp_path / "people")
    bundle = small_bundle(tmp_path / "small")
    command = ["sizes", "--bundle", bundle.path, "--people", tmp_path / "people"]
    command += ["--sizes", 40, 64, "--cache", tmp_path / "cache"]
    assert main([str(word) for word in command]) == 0
    head, *rows = capsys.readouterr().out.strip().splitlines()
    assert bundle.model_id[:12] in head
    cells = [[cell.strip() for cell in row.split("|")[1:-1]] for row in rows[3:]]
    assert [row[:2] for row in cells] == [
        ["40 px", "no"], ["40 px", "yes"], ["64 px", "no"], ["64 px", "yes"]
    ]  # fmt: skip
    assert len({row[2] for row in cells}) > 1, "other inputs give other figures"
    assert main([*map(str, command[:5]), "--sizes", "8"]) == 2
    assert all(float(row[4]) > 0 and float(row[5]) > 0 for row in cells)


@pytest.mark.parametrize(
    ("people", "said"),
    [({"people": 3}, "Nobody is held out"), ({"photos": 1}, "with at most 1 photos each")],
)
def test_without_pairs_of_people_held_out_there_is_nothing_to_measure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], people: dict[str, int], said: str
) -> None:
    made_up_people(tmp_path / "people", **people)
    bundle = small_bundle(tmp_path / "small")
    command = ["sizes", "--bundle", bundle.path, "--people", tmp_path / "people"]
    assert main([*map(str, command), "--cache", str(tmp_path / "cache")]) == 3
    assert said in capsys.readouterr().err
