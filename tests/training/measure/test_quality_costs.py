"""Costs are found where they were put, and a score made of them knows what will be missed."""

from __future__ import annotations

import numpy as np
import pytest

from training.measure.discards import discard_curve, discard_table
from training.measure.quality_costs import KNOTS, JudgedPhotos, cost, fit_costs

GOOD = {
    "eye_distance": 60.0,
    "sharpness": 0.5,
    "highlights": 0.8,
    "midtones": 0.5,
    "turn": 0.0,
    "outside": 0.0,
    "confidence": 1.0,
}


@pytest.fixture(scope="module")
def photos() -> JudgedPhotos:
    """150 people with six photos; blur below a sharpness of 0.2 adds noise to the vector."""
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(150), 6)
    measures = {name: np.full(len(labels), value) for name, value in GOOD.items()}
    measures["sharpness"] = rng.uniform(0.02, 0.5, len(labels))
    measures["turn"] = rng.uniform(0, 60, len(labels))
    noise = 0.6 + 4 * np.maximum(0, 0.2 - measures["sharpness"])
    centres = rng.normal(size=(150, 64))
    vectors = centres[labels] + noise[:, None] * rng.normal(size=(len(labels), 64))
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return JudgedPhotos(vectors.astype(np.float32), labels, np.arange(len(labels)), measures)


def test_a_cost_is_found_where_it_was_put_and_nowhere_else(photos) -> None:
    found = fit_costs(photos)
    assert set(found) == set(KNOTS)
    blur = dict(found["sharpness"])
    assert blur[0.04] > blur[0.11] + 0.5 > blur[0.3] + 0.5
    assert blur[0.3] == 0
    assert max(cost for _, cost in found["turn"]) < 0.25 * blur[0.04]
    assert all(cost == 0 for _, cost in found["outside"])


def test_costs_never_fall_as_a_measure_gets_worse(photos) -> None:
    for name, points in fit_costs(photos).items():
        values = [cost for _, cost in points]
        worse_is_larger = name in ("midtones", "turn", "outside")
        assert values == sorted(values, reverse=not worse_is_larger)


def test_the_scale_of_a_network_does_not_matter(photos) -> None:
    """Vectors whose cosines are all higher, in the same order."""
    lifted = np.hstack([photos.vectors, np.full((len(photos.labels), 1), 2, np.float32)])
    lifted /= np.linalg.norm(lifted, axis=1, keepdims=True)
    again = JudgedPhotos(lifted, photos.labels, photos.sources, photos.measures)
    plain, scaled = fit_costs(photos), fit_costs(again)
    for name in plain:
        assert np.allclose(plain[name], scaled[name], atol=0.02)


def test_a_stretch_that_too_few_people_reach_costs_nothing(photos) -> None:
    measures = dict(photos.measures)
    measures["confidence"] = np.where(photos.labels < 5, 0.7, 1.0)
    few = JudgedPhotos(photos.vectors, photos.labels, photos.sources, measures)
    assert all(cost == 0 for _, cost in fit_costs(few)["confidence"])


def test_discarding_by_the_score_removes_misses_and_by_noise_it_does_not(photos) -> None:
    learning = photos.labels < 75
    found = fit_costs(photos.subset(np.flatnonzero(learning)))
    rest = photos.subset(np.flatnonzero(~learning))
    by_score = discard_curve(rest.vectors, rest.labels, -cost(found, rest.measures))
    by_noise = discard_curve(rest.vectors, rest.labels, np.random.default_rng(1).random(450))
    assert by_score[0] == by_noise[0] > 0.02
    assert by_score[-1] < 0.6 * by_score[0]
    assert by_noise[-1] > 0.8 * by_noise[0]
    measured = {**rest.measures, "score": -cost(found, rest.measures)}
    table = discard_table(rest.vectors, rest.labels, measured, ("score", "turn"))
    assert f"{by_score[-1]:8.2%}" in table.splitlines()[1]


def test_two_copies_of_one_photo_are_no_pair() -> None:
    vectors = np.array([[1, 0], [1, 0], [0, 1], [0.7, 0.7]], np.float32)
    labels, settings = np.array([0, 0, 0, 1]), {"target_fmr": 0.5, "shares": (0.0,)}
    sources = np.array([0, 0, 2, 3])
    assert discard_curve(vectors, labels, np.ones(4), **settings) == [pytest.approx(2 / 3)]
    assert discard_curve(vectors, labels, np.ones(4), sources=sources, **settings) == [1.0]
