"""Check whether a calibration's promised rates hold on new photos."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from model.calibration.calibration import MAX_PHOTOS, Calibration
from model.calibration.pairs.people import draw_photos
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Progress, from_grid, to_grid
from model.calibration.rates import CERTAIN_ERRORS
from model.calibration.summary import error_curves
from model.errors import CalibrationError
from model.types import Rate

Outcome = Literal["kept", "better", "exceeded", "broken", "too few"]


@dataclass(frozen=True)
class PromiseCheck:
    """The result for one target on new data.

    Attributes:
        target_fmr, threshold: The calibration's target and its threshold.
        supported: Whether the calibration had enough data to measure this false-match rate.
        promised_fmr, promised_fnmr: Rates in the calibration.
        observed_fmr, observed_fnmr: Rates on the new data.
        fmr, fnmr: ``broken`` if the observed interval lies entirely above the promised one,
            ``better`` if entirely below, ``exceeded`` if entirely above the target but not above
            the promise, ``too few`` if the new data cannot tell, otherwise ``kept``.
    """

    target_fmr: float
    threshold: float
    supported: bool
    promised_fmr: Rate
    observed_fmr: Rate
    promised_fnmr: Rate
    observed_fnmr: Rate
    fmr: Outcome
    fnmr: Outcome

    @property
    def drifted(self) -> bool:
        """Whether a promised rate is broken.

        Every threshold promises a false non-match rate. It promises a false-match rate only if
        the calibration could measure it.
        """
        return self.fnmr == "broken" or (self.supported and self.fmr == "broken")

    @property
    def exceeded(self) -> bool:
        """Whether the whole interval of the false-match rate exceeds a supported target."""
        return self.supported and self.observed_fmr.low > self.target_fmr

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "drifted": self.drifted, "exceeded": self.exceeded}


def check_promises(
    calibration: Calibration,
    embeddings: np.ndarray,
    labels: np.ndarray,
    *,
    seed: int = 0,
    max_photos: int | None = MAX_PHOTOS,
    progress: Progress | None = None,
) -> tuple[PromiseCheck, ...]:
    """Measure the calibration's thresholds on photos of people it has not seen.

    Two intervals fail to overlap by chance far less often than 1 in 20. This compensates for
    testing several targets at once.

    Args:
        embeddings: float32 ``(N, D)`` unit vectors of the calibration's model.
        labels: int ``(N,)``, equal for photos of one person.
        max_photos: Most photos used per person; use the value of the calibration.

    Raises:
        CalibrationError: The data has no same-person pair or no impostor pair.
    """
    rows, meeting = draw_photos(np.asarray(labels), max_photos, seed)
    if int(calibration.code_version) < 3:  # older versions counted every pair
        meeting[:] = True
    embeddings, labels = np.asarray(embeddings)[rows], np.asarray(labels)[rows]
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), int), meeting)
    places = to_grid(np.array([target.threshold for target in calibration.targets]))
    knots = np.unique(places)
    nothing = np.zeros(len(labels), int)
    (counts,) = count_people(collection, from_grid(knots), nothing, np.array([[0]]), progress)
    curves = error_curves(counts)
    if curves.fmr.trials == 0 or curves.fnmr.trials == 0:
        raise CalibrationError(
            "The new data has no two photos of one person, or only one person. Give at least two "
            "photos each for a dozen people or more."
        )
    checks = []
    for target, knot in zip(calibration.targets, np.searchsorted(knots, places), strict=True):
        fmr, fnmr = curves.fmr.at(knot), curves.fnmr.at(knot)
        enough = target.target_fmr * curves.fmr.effective[knot] >= CERTAIN_ERRORS
        checks.append(
            PromiseCheck(
                target.target_fmr,
                target.threshold,
                target.supported,
                target.fmr,
                fmr,
                target.fnmr,
                fnmr,
                _outcome(target.fmr, fmr, target.target_fmr, bool(enough)),
                _outcome(target.fnmr, fnmr, 0.0, True),
            )
        )
    return tuple(checks)


def _outcome(promised: Rate, observed: Rate, target: float, enough: bool) -> Outcome:
    if observed.low > max(promised.high, target):
        return "broken"
    if observed.low > target > 0:
        return "exceeded"
    if not enough:
        return "too few"
    return "better" if observed.high < promised.low else "kept"
