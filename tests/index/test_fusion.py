from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from index.fusion import Fusion, fuse, strangers
from tests.index.helpers import unit

QUERY = unit(np.array([1.0, 0.0, 0.0]))
PHOTOS = unit(np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 1.0, 0.0]]))


def test_values_worked_out_by_hand() -> None:
    assert fuse(QUERY, PHOTOS, "max") == pytest.approx(1.0)
    # Mean (1.6, 1.8, 0) / 3; its cosine to the first axis.
    assert fuse(QUERY, PHOTOS, "template") == pytest.approx(1.6 / np.hypot(1.6, 1.8))


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 10**6), count=st.integers(1, 6), scale=st.floats(0.5, 2.0))
def test_one_photo_counts_for_itself_and_length_does_not_matter(
    seed: int, count: int, scale: float
) -> None:
    random = np.random.default_rng(seed)
    photos = unit(random.standard_normal((count, 8)))
    query = unit(random.standard_normal(8))
    for fusion in get_args(Fusion):
        score = fuse(query, photos, fusion)
        assert -1.0001 <= score <= 1.0001
        assert score == pytest.approx(fuse(query, scale * photos, fusion), abs=1e-5)
        assert fuse(query, photos[:1], fusion) == pytest.approx(float(query @ photos[0]), abs=1e-5)


def test_unknown_fusion_is_refused() -> None:
    with pytest.raises(ValueError, match="median"):
        fuse(QUERY, PHOTOS, "median")  # type: ignore[arg-type]


def test_the_promised_chance_of_a_false_match_holds_however_many_photos_there_are() -> None:
    rng = np.random.default_rng(0)
    people = rng.normal(size=(60, 32))
    photos = unit(people[:, None] + 0.8 * rng.normal(size=(60, 9, 32)))
    foreign = unit(rng.normal(size=(4000, 32)) + 0.8 * rng.normal(size=(4000, 32)))
    single = (foreign @ photos[:, 0].T).ravel()

    def pass_rate(fusion: Fusion, count: int, met: int) -> float:
        threshold = np.quantile(single, 0.95 ** (1 / met))
        best = [max(fuse(face, own[:count], fusion) for own in photos) for face in foreign[:300]]
        return float(np.mean(np.array(best) >= threshold))

    for fusion in get_args(Fusion):
        for count in (1, 9):
            assert pass_rate(fusion, count, strangers(fusion, 60, 60 * count)) <= 0.08, fusion
    assert pass_rate("max", 9, 60) > 0.15, "people alone are the wrong number to count with"


def test_strangers_are_counted_between_people_and_photos() -> None:
    for fusion in get_args(Fusion):
        assert strangers(fusion, 0, 0) == 1
        assert strangers(fusion, 7, 7) == 7
        assert 7 <= strangers(fusion, 7, 11) <= 11
    assert strangers("template", 10, 500) == 30
