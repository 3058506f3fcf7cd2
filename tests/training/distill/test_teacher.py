from __future__ import annotations

from pathlib import Path

import numpy as np

from model.embedding.embedder import Embedder
from tests.model.helpers import small_bundle
from training.distill.teacher import teacher_targets


def test_teacher_is_asked_once(tmp_path: Path) -> None:
    crops = np.random.default_rng(0).integers(0, 256, (5, 112, 112, 3), np.uint8)
    teacher = Embedder(small_bundle(tmp_path / "teacher"))
    first = teacher_targets(teacher, crops, cache=tmp_path)
    np.testing.assert_allclose(first, teacher.embed(crops), atol=1e-6)
    teacher.embed = None
    np.testing.assert_array_equal(teacher_targets(teacher, crops, cache=tmp_path), first)
