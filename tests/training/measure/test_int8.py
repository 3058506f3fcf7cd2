"""When an int8 graph is added to a bundle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from model.embedding import engines
from model.embedding.embedder import Embedder
from tests.model.helpers import random_crops, small_bundle
from training.learn.inference import embed_crops
from training.measure import int8
from training.report.card_int8 import int8_section

PEOPLE, PHOTOS, DIM = 300, 3, 32


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def embedded(noise: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Vectors, the same with noise, and labels."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(PEOPLE), PHOTOS)
    vectors = rng.normal(size=(PEOPLE, DIM))[labels] + 0.8 * rng.normal(size=(len(labels), DIM))
    fp32 = unit(vectors)
    return fp32, unit(fp32 + noise * rng.normal(size=fp32.shape)), labels


def test_the_same_vectors_hold() -> None:
    fp32, _, labels = embedded(0)
    figures = int8.compare_precisions(fp32, fp32, labels)
    assert figures.holds
    assert figures.genuine_pairs == PEOPLE * PHOTOS * (PHOTOS - 1) // 2
    assert {each.misses for rows in figures.errors.values() for each in rows} == {1}
    scores = (fp32 @ fp32.T)[np.triu_indices(len(labels), 1)]
    same = (labels[:, None] == labels)[np.triu_indices(len(labels), 1)]
    threshold = np.quantile(scores[~same], 1 - 1e-3)
    assert figures.errors["int8"][0].fp32_misses == pytest.approx(
        (scores[same] < threshold).mean(), abs=0.01
    )


def test_vectors_with_noise_do_not_hold_and_one_of_two_costs_less_than_both() -> None:
    figures = int8.compare_precisions(*embedded(0.1))
    assert not figures.holds
    both, cross = (figures.errors[name][0] for name in int8.PAIRINGS)
    assert both.misses > cross.misses > int8.MOST_MISSES
    assert figures.d_prime["int8"] < figures.d_prime["int8 with fp32"] < figures.fp32_d_prime


def test_too_few_strangers_do_not_hold() -> None:
    fp32, _, labels = embedded(0)
    assert not int8.compare_precisions(fp32[:600], fp32[:600], labels[:600]).holds


@pytest.mark.parametrize("most", [0.0, 1e9])
def test_a_graph_that_errs_more_is_not_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: float
) -> None:
    if not engines.computes_int8():
        pytest.skip("this CPU has no instructions for int8")
    monkeypatch.setattr(int8, "MIN_FALSE_MATCHES", 0)
    monkeypatch.setattr(int8, "MOST_MISSES", most)
    monkeypatch.setattr(int8, "MOST_FALSE_MATCHES", most)
    bundle = small_bundle(tmp_path / "b")
    crops, labels = random_crops(64), np.repeat(np.arange(16), 4)
    vectors = embed_crops(Embedder(bundle, device="cpu"), crops)
    changed, figures = int8.add_int8(bundle, crops, vectors, labels, np.arange(64))
    assert changed.model_id == bundle.model_id
    assert (changed.int8_file is not None) == (figures is not None) == (most > 0)
    assert len(int8_section(figures)) == (3 if figures else 0)


def test_nothing_is_added_where_int8_cannot_be_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(int8, "computes_int8", lambda: False)
    bundle = small_bundle(tmp_path / "b")
    nothing = np.empty(0, np.int64)
    assert int8.add_int8(bundle, nothing, nothing, nothing, nothing) == (bundle, None)
