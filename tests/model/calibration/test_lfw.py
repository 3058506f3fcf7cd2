"""At full size, and on real people: the promise made on DevTrain holds on DevTest."""

from __future__ import annotations

import resource
import time
from pathlib import Path

import numpy as np
import pytest

from model.bundle import DEFAULT, Bundle
from model.calibration import Calibration
from model.calibration.check import check_promises
from model.embedding.embedder import Embedder
from tests.paths import ROOT
from training.datasets import lfw
from training.inputs.crops import crop_photos
from training.report.promises import promise_table

pytestmark = pytest.mark.slow

CACHE = ROOT / "runs" / "cache"


def test_87_million_pairs_take_two_minutes_and_a_gigabyte() -> None:
    rng = np.random.default_rng(0)
    people = 5_749
    sizes = np.minimum(rng.zipf(2.1, people), 500)
    labels = np.repeat(np.arange(people), sizes)
    labels = np.r_[labels, rng.integers(0, people, max(0, 13_233 - len(labels)))][:13_233]
    vectors = rng.normal(size=(people, 512)).astype(np.float32)[labels]
    vectors += rng.normal(size=vectors.shape).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    calibration = Calibration.fit(
        vectors, labels, model_id="m", protocol="p", data_fingerprint="f", max_photos=None
    )
    spent = time.process_time() - start
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1e6
    print(f"{spent:.0f} s of processor, {grown:.2f} GB more memory")
    assert calibration.genuine_pairs + calibration.impostor_pairs == 13_233 * 13_232 // 2
    assert spent < 120
    assert grown < 1


@pytest.fixture(scope="module")
def embedded(shared_data: Path):
    """LFW through the bundle that ships with the project."""
    if not DEFAULT.is_dir():
        pytest.skip(f"there is no bundle at {DEFAULT}")
    table = lfw.load(shared_data)
    crops = crop_photos(table.paths, cache=CACHE)
    bundle = Bundle.load()
    vectors = Embedder(bundle).embed(crops.pixels)
    parts = {}
    for part in ("DevTrain", "DevTest"):
        rows = lfw.dev_rows(shared_data, table, part)
        rows = rows[crops.found[rows]]
        parts[part] = vectors[rows], table.labels[rows]
    return parts


@pytest.fixture(scope="module")
def promise(embedded) -> Calibration:
    return Calibration.fit(
        *embedded["DevTrain"], model_id="m", protocol="LFW DevTrain", data_fingerprint="f"
    )


def test_promises_made_on_devtrain_hold_on_devtest(promise, embedded) -> None:
    checks = check_promises(promise, *embedded["DevTest"])
    print("\n" + promise_table(checks))
    assert sum(check.supported for check in checks) >= 4
    assert not any(check.drifted for check in checks)


@pytest.mark.parametrize("people", [50, 200, 1000])
def test_search_chances_hold_on_devtest(promise, embedded, people: int) -> None:
    """Strangers search galleries of so many other people, one photo each."""
    vectors, labels = embedded["DevTest"]
    rows = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    rng = np.random.default_rng(0)
    search = promise.search_threshold(people, 0.05)
    hits, trials = 0, 0
    for _ in range(100):
        drawn = vectors[[rng.choice(rows[label]) for label in rng.permutation(list(rows))]]
        gallery, probes = drawn[:people], drawn[people : people + 200]
        hits += int(((probes @ gallery.T).max(axis=1) >= search.threshold).sum())
        trials += len(probes)
    print(f"\n{people} people: formula {search.fpir.value:.4f}, simulated {hits / trials:.4f}")
    assert search.supported
    assert search.fpir.low * 0.6 < hits / trials < search.fpir.high * 1.15
