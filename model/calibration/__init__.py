"""Calibration: from genuine and impostor scores to d', thresholds, error rates and decisions."""

from __future__ import annotations

from model.calibration.calibration import Calibration
from model.calibration.types import (
    TARGETS,
    ErrorCurves,
    Estimate,
    GroupRates,
    Histograms,
    QualityBin,
    SearchThreshold,
    Summary,
    Threshold,
)

__all__ = [
    "TARGETS",
    "Calibration",
    "ErrorCurves",
    "Estimate",
    "GroupRates",
    "Histograms",
    "QualityBin",
    "SearchThreshold",
    "Summary",
    "Threshold",
]
