"""Whether an int8 graph may share the model id and the calibration of its fp32 network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from model.bundle import Bundle
from model.calibration.calibration import MAX_PHOTOS
from model.calibration.pairs.people import draw_photos, split_people
from model.embedding.embedder import Embedder
from model.embedding.engines import computes_int8
from model.embedding.quantise import quantise
from training.learn.inference import embed_crops
from training.measure.metrics import MIN_FALSE_MATCHES

FMRS = (1e-3, 1e-4)
MOST_MISSES, MOST_FALSE_MATCHES = 1.03, 1.05
"""Most errors, as a multiple of those of fp32."""

PAIRINGS = ("int8", "int8 with fp32")


QUANTISED_ON = 256
"""Crops on which a graph is made."""


@dataclass(frozen=True)
class ErrorsAt:
    """Errors at one false-match rate; the last three are multiples of those of fp32.

    Attributes:
        fmr: The false-match rate at which fp32 takes its threshold.
        fp32_misses: False non-match rate of fp32.
        misses: At the threshold where the false-match rate is equal.
        misses_fixed, false_matches_fixed: At the threshold of fp32, as with one calibration.
    """

    fmr: float
    fp32_misses: float
    misses: float
    misses_fixed: float
    false_matches_fixed: float

    @property
    def holds(self) -> bool:
        misses = max(self.misses, self.misses_fixed)
        return misses <= MOST_MISSES and self.false_matches_fixed <= MOST_FALSE_MATCHES


@dataclass(frozen=True)
class Int8Figures:
    """int8 against fp32 on the same pairs.

    Attributes:
        people, photos, genuine_pairs, impostor_pairs: What was measured on.
        fp32_d_prime: d' of fp32.
        d_prime: d' where both photos are int8, and where one of them is (:data:`PAIRINGS`).
        errors: Their errors at each of :data:`FMRS`.
    """

    people: int
    photos: int
    genuine_pairs: int
    impostor_pairs: int
    fp32_d_prime: float
    d_prime: Mapping[str, float]
    errors: Mapping[str, tuple[ErrorsAt, ...]]

    @property
    def holds(self) -> bool:
        """Whether int8 errs as rarely as fp32 with the calibration of fp32."""
        enough = self.impostor_pairs * min(FMRS) >= MIN_FALSE_MATCHES
        return enough and all(each.holds for rows in self.errors.values() for each in rows)


def add_int8(
    bundle: Bundle, crops: np.ndarray, vectors: np.ndarray, labels: np.ndarray, rows: np.ndarray
) -> tuple[Bundle, Int8Figures | None]:
    """Add an int8 graph if it errs as rarely as fp32, made on some people and measured on others.

    Args:
        bundle: A bundle without such a graph.
        crops, vectors, labels: All photos, and their vectors in fp32.
        rows: Those of people on whom nothing is reported.

    Returns:
        The bundle, and the figures if the graph was added.
    """
    if not computes_int8():
        print("no int8 graph: this CPU has no VNNI or AMX instructions to measure it with")
        return bundle, None
    half = split_people(labels[rows], seed=0)
    made, measured = rows[half == 0], rows[half == 1]
    chosen = np.random.default_rng(0).permutation(made)[:QUANTISED_ON]
    changed = bundle.with_int8(quantise(bundle, crops[np.sort(chosen)]))
    embedder = Embedder(changed, engine="onnxruntime-int8")
    found = embed_crops(embedder, crops, measured, title="embedding in int8")
    figures = compare_precisions(vectors[measured], found, labels[measured])
    for pairing, errors in figures.errors.items():
        for each in errors:
            print(
                f"{pairing} at FMR {each.fmr:g}: {each.misses - 1:+.1%} misses, at the threshold "
                f"of fp32 {each.misses_fixed - 1:+.1%} misses and "
                f"{each.false_matches_fixed - 1:+.1%} false matches"
            )
    if figures.holds:
        return changed, figures
    print("no int8 graph: it errs more than fp32")
    return changed.without_int8(), None


def compare_precisions(fp32: np.ndarray, int8: np.ndarray, labels: np.ndarray) -> Int8Figures:
    """Compare two embeddings ``(N, D)`` of the same photos, on all pairs of a draw of them."""
    rows, _ = draw_photos(labels, MAX_PHOTOS, seed=0)
    fp32, int8, labels = fp32[rows], int8[rows], labels[rows]
    pairs = np.triu(np.ones((len(rows), len(rows)), bool), 1)
    same = labels[:, None] == labels
    genuine, impostor = pairs & same, pairs & ~same

    def scores(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        products = first @ second.T
        return np.sort(products[genuine]), np.sort(products[impostor])

    exact = scores(fp32, fp32)
    given = dict(zip(PAIRINGS, (scores(int8, int8), scores(int8, fp32)), strict=True))
    return Int8Figures(
        people=len(np.unique(labels)),
        photos=len(rows),
        genuine_pairs=len(exact[0]),
        impostor_pairs=len(exact[1]),
        fp32_d_prime=_d_prime(*exact),
        d_prime={name: _d_prime(*each) for name, each in given.items()},
        errors={
            name: tuple(_errors(fmr, exact, each) for fmr in FMRS) for name, each in given.items()
        },
    )


def _errors(
    fmr: float, exact: tuple[np.ndarray, np.ndarray], given: tuple[np.ndarray, np.ndarray]
) -> ErrorsAt:
    allowed = max(1, int(fmr * len(exact[1])))
    threshold, own = exact[1][-allowed], given[1][-allowed]
    missed = max(1, int(np.searchsorted(exact[0], threshold)))
    return ErrorsAt(
        fmr=fmr,
        fp32_misses=missed / len(exact[0]),
        misses=float(np.searchsorted(given[0], own) / missed),
        misses_fixed=float(np.searchsorted(given[0], threshold) / missed),
        false_matches_fixed=float((given[1] >= threshold).sum() / allowed),
    )


def _d_prime(genuine: np.ndarray, impostor: np.ndarray) -> float:
    spread = np.sqrt((genuine.var() + impostor.var()) / 2)
    return float((genuine.mean() - impostor.mean()) / spread)
