"""Do the promised rates hold for other people's photos?"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np

from model.calibration.calibration import MAX_PHOTOS, Calibration
from model.calibration.fit import draw_photos
from model.calibration.pairs.person_counts import count_people
from model.calibration.pairs.scores import Collection, Progress, from_grid, to_grid
from model.calibration.rates import CERTAIN_ERRORS
from model.calibration.summary import error_curves
from model.errors import CalibrationError
from model.types import Rate

Outcome = Literal["kept", "better", "exceeded", "broken", "too few"]


@dataclass(frozen=True)
class PromiseCheck:
    """One target on new data.

    Attributes:
        target_fmr, threshold: The promise's target and threshold.
        supported: Whether the calibration could measure this false-match rate at all.
        promised_fmr, promised_fnmr: Rates the calibration states.
        observed_fmr, observed_fnmr: Rates on the new data.
        fmr, fnmr: ``broken`` when the observed interval lies wholly above the promise,
            ``better`` when wholly below, ``exceeded`` when it lies wholly above the target though
            not above the promise, ``too few`` when the new data could not tell.
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
        """Whether a rate that was promised is broken.

        A false non-match rate was measured, and so promised, at every threshold; a false-match
        rate only where the calibration measured it.
        """
        return self.fnmr == "broken" or (self.supported and self.fmr == "broken")

    @property
    def exceeded(self) -> bool:
        """Whether strangers certainly pass more often than a target that is promised."""
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

    Two intervals that do not overlap are far rarer by chance than 1 in 20, which makes up for
    asking about several targets at once.

    Args:
        calibration: What was promised.
        embeddings: float32 ``(N, D)`` unit vectors of the calibration's model.
        labels: int ``(N,)``, equal for photos of one person.
        seed: Seed of the photos drawn.
        max_photos: Most photos of one person that are used, as when the promise was made.
        progress: Called with pairs done and pairs in all.
    """
    rows, meeting = draw_photos(np.asarray(labels), max_photos, seed)
    if int(calibration.code_version) < 3:  # it counted every pair of the photos drawn
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
