from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from model.bundle import DEFAULT
from tests import samples
from training.__main__ import main
from training.inputs.crops import aligned_crops


@pytest.mark.parametrize("inside", [False, True])
def test_people_of_the_benchmark_are_named_however_their_folder_is_written(
    inside: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    benchmark = tmp_path / "benchmark"
    benchmark.mkdir()
    Image.fromarray(samples.second_photo(samples.collins())).save(benchmark / "one.png")
    for person, photo in (("collins", samples.collins()), ("hopper", samples.hopper())):
        folder = tmp_path / "people" / person
        folder.mkdir(parents=True)
        Image.fromarray(photo).save(tmp_path / "photo.png")
        (crop,), _ = aligned_crops([tmp_path / "photo.png"], cache=tmp_path / "cache")
        Image.fromarray(crop).save(folder / "0.png")
    if inside:
        monkeypatch.chdir(tmp_path / "people")
    given = "." if inside else str(tmp_path / "people")
    command = [
        "overlap", "--teacher", str(DEFAULT), "--people", given,
        "--against", str(benchmark), "--cache", str(tmp_path / "cache"),
        "--out", str(tmp_path / "found.txt"),
    ]  # fmt: skip
    assert main(command) == 0
    assert (tmp_path / "found.txt").read_text() == "people/collins\n"
    assert "people: 1 of 2 are in benchmark" in capsys.readouterr().out
