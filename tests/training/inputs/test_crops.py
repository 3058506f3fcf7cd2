from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image

from tests.training.face_folders import made_up_people
from training.inputs.crops import aligned_crops


def test_crops_are_cached_by_content_not_by_name(tmp_path: Path) -> None:
    made_up_people(tmp_path / "people")
    paths = sorted((tmp_path / "people").rglob("*.png"))[:3]
    crops, found = aligned_crops(paths, aligned=True, cache=tmp_path / "c")
    assert found.all()
    np.testing.assert_array_equal(crops[1], np.asarray(Image.open(paths[1])))
    moved = paths[1].rename(paths[1].with_name("moved.png"))
    aligned_crops([paths[0], moved, paths[2]], aligned=True, cache=tmp_path / "c")
    assert len(list((tmp_path / "c").glob("crops-*.npy"))) == 1
    Image.new("RGB", (112, 112)).save(moved)
    changed, _ = aligned_crops([paths[0], moved, paths[2]], aligned=True, cache=tmp_path / "c")
    assert changed[1].max() == 0
