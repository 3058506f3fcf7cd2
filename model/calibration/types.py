"""The parts of a calibration: small frozen dataclasses that convert to JSON and back."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from model.calibration.intervals import Floats, RateCurve
from model.calibration.likelihood import LikelihoodRatio
from model.calibration.tail import Tail
from model.types import Rate

TARGETS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6)
"""False-match rates for which every calibration gives a threshold."""


@dataclass(frozen=True)
class Estimate:
    """An estimate with its 95% interval over people."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation and skewness of a score distribution."""

    mean: float
    std: float
    skew: float


@dataclass(frozen=True)
class Threshold:
    """An acceptance threshold with its error rates on people it was not chosen on.

    Attributes:
        threshold: Lowest score that counts as the same person.
        fmr, fnmr: Rates measured at the threshold on the held-out half of the people.
        supported: Whether the sample is large enough to measure the target.
        extrapolated: Whether the threshold comes from the tail model instead of counts.
    """

    target_fmr: float
    threshold: float
    fmr: Rate
    fnmr: Rate
    supported: bool
    extrapolated: bool

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class SearchThreshold(Threshold):
    """A threshold for one search among many people.

    Attributes:
        target_fpir: Requested probability of any match for a person not in the gallery.
        fpir: That probability at the threshold, from the held-out false-match rate.
    """

    gallery_size: int
    target_fpir: float
    fpir: Rate


@dataclass(frozen=True)
class Summary:
    """Summary of the two distributions, with the EER and threshold of a Gaussian model."""

    d_prime: Estimate
    eer: Estimate
    eer_threshold: float
    genuine: Spread
    impostor: Spread
    gaussian_eer: float
    gaussian_threshold: float


@dataclass(frozen=True, eq=False)
class ErrorCurves:
    """Both error rates of one population of pairs, at every knot."""

    fmr: RateCurve
    fnmr: RateCurve


@dataclass(frozen=True, eq=False)
class QualityBin(ErrorCurves):
    """Pairs whose poorer photo has a quality in ``[low, high)``."""

    low: float
    high: float


@dataclass(frozen=True)
class GroupRates:
    """Error rates of one group, or between two, at one of the global thresholds.

    Attributes:
        groups: The groups of the two photos; equal for rates within a group.
        people: Number of people with such pairs.
        fmr, fnmr: Measured on the held-out half; None if there are too few people. ``fnmr`` is
            None between groups.
    """

    groups: tuple[str, str]
    target_fmr: float
    threshold: float
    people: int
    fmr: Rate | None
    fnmr: Rate | None


@dataclass(frozen=True)
class KindRates:
    """Error rates for pairs of two photos of one kind, such as ``blurred``.

    Attributes:
        kind: The defect of the photos; ``whole`` for none.
        target_fmr: The requested target; the threshold depends on the quality of each pair.
        people: People with such photos, all from the held-out half.
        fmr: Stranger pairs called the same.
        missed: Same-person pairs not called the same.
        different: Same-person pairs called different; the other missed ones are inconclusive.
    """

    kind: str
    target_fmr: float
    people: int
    fmr: Rate
    missed: Rate
    different: Rate

    @property
    def exceeded(self) -> bool:
        """Whether the whole interval of the false-match rate exceeds the target."""
        return self.fmr.low > self.target_fmr


@dataclass(frozen=True, eq=False)
class FurtherRates:
    """False matches in a further collection, at every knot.

    Attributes:
        fit: The half of the people used to choose thresholds.
        held_out: The other half.
    """

    name: str
    people: int
    fit: RateCurve
    held_out: RateCurve


@dataclass(frozen=True)
class Histograms:
    """Coarse histograms of both distributions, for plots.

    Attributes:
        edges: ``B + 1`` ascending scores.
        genuine, impostor: ``B`` pair counts.
    """

    edges: tuple[float, ...]
    genuine: tuple[int, ...]
    impostor: tuple[int, ...]


@dataclass(frozen=True, eq=False, kw_only=True)
class Parts:
    """All measured parts; `Calibration` adds the model, protocol and data they belong to.

    Files have the fields in this order.

    Attributes:
        scores: float64 ``(T,)`` ascending knots, shared by all curves.
        fit: The half of the people used to choose thresholds.
        held_out: The other half.
        everyone: All pairs, including those between the halves.
        reliability: Rows of `likelihood.reliability` on the held-out half.
        people: Number of people, 0 if unknown.
        genuine_people: People with at least two photos.
        largest_share: Largest fraction of all same-person pairs that belong to one person.
        quality: Rates by the lower quality of the two photos, poorest first.
        groups: Rates by group, at each target's threshold.
        further: False matches in further collections, which thresholds must hold on too.
    """

    people: int = 0
    genuine_people: int = 0
    largest_share: float = 0.0
    summary: Summary
    likelihood: LikelihoodRatio
    reliability: tuple[tuple[float, float, int, int], ...]
    tail: Tail
    histograms: Histograms
    groups: tuple[GroupRates, ...] = ()
    kinds: tuple[KindRates, ...] = ()
    further: tuple[FurtherRates, ...] = ()
    scores: Floats
    fit: ErrorCurves
    held_out: ErrorCurves
    everyone: ErrorCurves
    quality: tuple[QualityBin, ...] = ()
