from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from model.bundle import Bundle
from model.calibration import Calibration
from model.calibration.check import check_promises
from tests.model.helpers import small_bundle
from training.measure import metrics
from training.measure.subgroup_errors import SliceRates, Strangers, by_measure
from training.report.card import Figures, write_card


def crowd(people: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = np.repeat(np.arange(people), 3)
    vectors = rng.normal(size=(people, 32))[labels] + rng.normal(size=(3 * people, 32))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32), labels


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Bundle:
    return small_bundle(tmp_path_factory.mktemp("bundle") / "small")


def test_every_figure_of_the_card_is_a_measured_one(bundle: Bundle) -> None:
    calibration = Calibration.fit(
        *crowd(120, 0), model_id=bundle.model_id, protocol="drawn people", data_fingerprint="f"
    )
    vectors, labels = crowd(90, 1)
    slices = by_measure(vectors, labels, np.linspace(0, 1, len(labels)), (0, 0.5, 1), 0.4)
    figures = Figures(
        unseen=metrics.evaluate(vectors, labels, replicates=20),
        view2_accuracy=0.8765,
        view2_standard_error=0.0123,
        view2_lost=4,
        promises=check_promises(calibration, vectors, labels),
        weakness_target=1e-2,
        weaknesses={"blur": slices},
        groups=Strangers({"age": slices}, cut_off=0.25),
        folders=Strangers({"group": (*slices, SliceRates("nobody", None, None))}, cut_off=0.125),
    )
    facts = {"summary": "S.", "terms": "T.", "caveat": "But.", "making": {"data": "drawn"}}
    facts["groups"] = "Drawn too."
    card = write_card(bundle, calibration, figures, facts)
    unseen = figures.unseen
    assert "87.65% ± 1.23%" in card
    assert f"{unseen['metrics']['d_prime']['value']:.2f} [" in card
    assert f"{unseen['impostor_pairs']:,} stranger pairs" in card
    assert "drawn people" in card
    assert "not supported" in card  # ninety people cannot show one in a million
    assert f"{slices[1].fnmr.value:.1%} [" in card
    assert "25% of them cut off" in card
    assert "| nobody |  | none |" in card
    assert "calls 12% cut off. Drawn too.\n\n| by group | FMR | pairs |" in card
    assert "- **data**: drawn" in card
    assert "the gallery stays as it is" in card
    assert "## People never seen\n\nBut.\n" in card
    search = calibration.search_threshold(1_000, 0.01)
    assert f"| 1,000 | {search.threshold:.3f} | extrapolated, not supported |" in card
    assert_answers(card, calibration)
    checked = figures.promises[0]
    assert f"{checked.observed_fmr.trials:,} stranger pairs. A promise" in card
    stored = bundle.with_card(card, metrics=figures.to_dict(), pictures={"d.png": b"png"})
    again = Bundle.load(stored.path)
    assert again.card == card
    assert again.metrics["view2_accuracy"] == 0.8765
    assert (again.path / "d.png").read_bytes() == b"png"
    assert Path(Bundle.load(again.path).with_calibration(calibration).path, "d.png").exists()


def assert_answers(card: str, calibration: Calibration) -> None:
    """The shares of each answer, against counting the pairs of the calibration one by one."""
    vectors, labels = crowd(120, 0)
    rows, cols = np.triu_indices(len(labels), 1)
    scores, same = (vectors @ vectors.T)[rows, cols], labels[rows] == labels[cols]
    verdict = calibration.decide(0.0, 1e-2)
    for who, mine in (("one person", scores[same]), ("strangers", scores[~same])):
        line = re.search(rf"\| 1e-02 \| {who} \| (\S+).* \| (\S+) \| (\S+)", card)
        told = [float(cell.rstrip("%")) / (100 if "%" in cell else 1) for cell in line.groups()]
        counted = [
            np.mean(mine >= verdict.threshold),
            np.mean((mine < verdict.threshold) & (mine >= verdict.reject_below)),
            np.mean(mine < verdict.reject_below),
        ]
        np.testing.assert_allclose(told, counted, atol=2e-3)


def test_without_groups_the_card_says_nothing_of_them(bundle: Bundle) -> None:
    calibration = Calibration.fit(
        *crowd(120, 0), model_id=bundle.model_id, protocol="p", data_fingerprint="f"
    )
    vectors, labels = crowd(90, 1)
    figures = Figures(
        metrics.evaluate(vectors, labels, replicates=5),
        0.9, 0.01, 0, check_promises(calibration, vectors, labels), 1e-2, {}, None,
    )  # fmt: skip
    card = write_card(bundle, calibration, figures, {"summary": "", "terms": "", "making": {}})
    assert "UTKFace" not in card
    assert "other strangers" not in card
