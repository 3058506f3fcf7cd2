from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.errors import FaceError
from tests.training.face_folders import made_up_people
from training.datasets import folder
from training.datasets.face_set import held_out, read_names, read_root


def test_crops_and_names_of_a_folder_of_people(tmp_path: Path) -> None:
    made_up_people(tmp_path / "people")
    crops, names = read_root(tmp_path / "people", tmp_path / "cache")
    assert crops.shape == (120, 112, 112, 3)
    assert {Path(name).parent.as_posix() for name in names} == {f"people/p{n}" for n in range(60)}


def test_a_share_of_the_people_is_held_out_however_the_folder_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_up_people(tmp_path / "people")
    _, names = read_root(tmp_path / "people", tmp_path / "cache")
    people = {Path(name).parent.as_posix() for name in names}
    spared = {person for person in people if held_out(person)}
    assert 0 < len(spared) < 12
    monkeypatch.chdir(tmp_path / "people")
    _, from_inside = read_root(Path(), tmp_path / "cache")
    assert from_inside == names
    assert spared < set(folder.load(Path()).people)


def test_pictures_that_are_left_out_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = np.random.default_rng(1)
    for name, side in (("1", 112), ("2", 112), ("small", 64)):
        Image.fromarray(rng.integers(0, 256, (side, side, 3), np.uint8)).save(
            tmp_path / f"{name}.png"
        )
    (tmp_path / "broken.png").write_bytes(b"no picture")
    _, names = read_root(tmp_path, tmp_path / "cache")
    assert names == [f"{tmp_path.name}/1.png", f"{tmp_path.name}/2.png"]
    assert "2 of 4 pictures" in capsys.readouterr().out


@pytest.mark.parametrize("aligned", [True, False])
def test_a_folder_without_a_usable_face_is_refused(aligned: bool, tmp_path: Path) -> None:
    (tmp_path / "blank").mkdir()
    with pytest.raises(FaceError, match="holds no pictures"):
        read_root(tmp_path / "blank", tmp_path / "cache", aligned=aligned)
    Image.new("RGB", (64, 64)).save(tmp_path / "blank" / "1.png")
    with pytest.raises(FaceError, match="1 of 1 pictures"):
        read_root(tmp_path / "blank", tmp_path / "cache", aligned=aligned)


def test_a_list_of_names_that_is_missing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("people/p3\nloose/00/1.png\n")
    assert read_names(tmp_path / "list.txt") == {"people/p3", "loose/00/1.png"}
    assert read_names(None) == frozenset()
    with pytest.raises(FaceError, match=r"no file .*gone\.txt"):
        read_names(tmp_path / "gone.txt")
