from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from model.embedding.embedder import Embedder
from tests.model.helpers import small_bundle
from tests.samples import collins, hopper
from training.datasets.table import DatasetError
from training.measure.subgroup_errors import (
    _across,
    by_measure,
    strangers_by_folder,
    strangers_by_group,
)


def people(count: int, photos: int, noise: np.ndarray, seed: int = 0) -> tuple:
    """Unit vectors of people whose photos are as noisy as ``noise`` says."""
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(count), photos)
    vectors = rng.normal(size=(count, 16))[labels] + noise[:, None] * rng.normal(
        size=(count * photos, 16)
    )
    return vectors / np.linalg.norm(vectors, axis=1, keepdims=True), labels


def test_rates_by_measure_against_a_double_loop() -> None:
    values = np.random.default_rng(1).uniform(0, 90, 120)
    vectors, labels = people(40, 3, values / 60)
    threshold = 0.5
    slices = by_measure(vectors, labels, values, (0, 30, 60, 90), threshold)
    counts = np.zeros((3, 4), int)
    for i in range(120):
        for j in range(i):
            worse = max(values[i], values[j])
            row = 0 if worse < 30 else 1 if worse < 60 else 2
            score = float(vectors[i] @ vectors[j])
            if labels[i] == labels[j]:
                counts[row] += (0, 0, score < threshold, 1)
            else:
                counts[row] += (score >= threshold, 1, 0, 0)
    for row, found in zip(counts, slices, strict=True):
        assert (found.fmr.errors, found.fmr.trials) == (row[0], row[1])
        assert (found.fnmr.errors, found.fnmr.trials) == (row[2], row[3])
        assert found.fnmr.low <= found.fnmr.value <= found.fnmr.high
    assert slices[2].fnmr.value > slices[0].fnmr.value


def test_a_group_whose_members_look_alike_shows() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(300, 16))
    vectors[200:] += 2 * rng.normal(size=16)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    codes = np.repeat([0, 1, 2], 100)
    rates = {found.name: found for found in _across(vectors, codes, ("a", "b", "c"), 0.5)}
    assert set(rates) == {"a", "b", "c", "a / b", "a / c", "b / c"}
    assert rates["a"].fmr.trials == 100 * 99 // 2
    assert rates["a / b"].fmr.trials == 100 * 100
    assert rates["c"].fmr.low > rates["a"].fmr.high
    assert rates["a"].fnmr is None


def test_few_errors_give_the_interval_that_as_many_errors_are_worth() -> None:
    rng = np.random.default_rng(0)
    vectors = rng.normal(size=(1000, 32))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    (found,) = _across(vectors, np.zeros(1000, int), ("all",), 0.68)
    assert 8 <= found.fmr.errors <= 80
    assert found.fmr.high < 3 * found.fmr.value
    assert found.fmr.low > found.fmr.value / 3


def test_only_photos_that_meet_strangers_do() -> None:
    vectors, labels = people(10, 4, np.full(40, 0.5))
    meeting = np.tile([True, False, True, False], 10)
    (found,) = by_measure(vectors, labels, np.zeros(40), (0, 1), 0.5, meeting=meeting)
    assert found.fmr.trials == 2 * 2 * (10 * 9 // 2)
    assert found.fnmr.trials == 10 * 6


def test_a_folder_that_is_not_utkface_is_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"")
    embedder = Embedder(small_bundle(tmp_path / "b"))
    with pytest.raises(DatasetError, match="age_gender_race"):
        strangers_by_group(tmp_path, embedder, 0.5, cache=tmp_path)


def test_groups_in_folders_are_compared_inside_each(tmp_path: Path) -> None:
    for group, photos in {"alike": [collins(), collins()], "two": [collins(), hopper()]}.items():
        (tmp_path / "groups" / group).mkdir(parents=True)
        for number, photo in enumerate(photos):
            Image.fromarray(photo).save(tmp_path / "groups" / group / f"{number}.png")
    (tmp_path / "groups" / "none").mkdir()
    embedder = Embedder(small_bundle(tmp_path / "b"))
    found = strangers_by_folder(tmp_path / "groups", embedder, 0.9999, cache=tmp_path / "cache")
    rates = {rate.name: rate.fmr for rate in found.rates["group"]}
    assert {name: (rate.errors, rate.trials) for name, rate in rates.items()} == {
        "alike": (1, 1),
        "two": (0, 1),
    }
    assert found.cut_off == 0
    with pytest.raises(DatasetError, match="no folders with photos"):
        strangers_by_folder(tmp_path / "b", embedder, 0.5, cache=tmp_path)
