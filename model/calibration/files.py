"""Encode and decode a calibration's measured parts as JSON."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from model.calibration.intervals import RateCurve
from model.calibration.likelihood import LikelihoodRatio
from model.calibration.tail import Tail
from model.calibration.types import (
    ErrorCurves,
    GroupRates,
    Histograms,
    KindRates,
    Parts,
    QualityBin,
    Summary,
    significant,
)
from model.errors import CalibrationError


def encode(parts: Parts) -> dict[str, Any]:
    """Convert the parts to plain values, most important first; intervals to five digits."""
    return {
        "people": parts.people,
        "genuine_people": parts.genuine_people,
        "genuine_pairs": parts.everyone.fnmr.trials,
        "impostor_pairs": parts.everyone.fmr.trials,
        "largest_share": parts.largest_share,
        "summary": asdict(parts.summary),
        "likelihood": asdict(parts.likelihood),
        "reliability": [list(row) for row in parts.reliability],
        "tail": asdict(parts.tail),
        "histograms": asdict(parts.histograms),
        "groups": [asdict(row) for row in parts.groups],
        "kinds": [asdict(row) for row in parts.kinds],
        "scores": parts.scores.tolist(),
        "fit": _short(parts.fit).to_dict(),
        "held_out": _short(parts.held_out).to_dict(),
        "everyone": _short(parts.everyone).to_dict(),
        "quality": [replace(row, curves=_short(row.curves)).to_dict() for row in parts.quality],
    }


def decode(data: dict[str, Any]) -> Parts:
    """The inverse of `encode`."""
    ratio = dict(data["likelihood"])
    for name in ("scores", "log10"):
        ratio[name] = tuple(ratio[name])
    return Parts(
        scores=np.asarray(data["scores"], float),
        fit=ErrorCurves.from_dict(data["fit"]),
        held_out=ErrorCurves.from_dict(data["held_out"]),
        everyone=ErrorCurves.from_dict(data["everyone"]),
        summary=Summary.from_dict(data["summary"]),
        likelihood=LikelihoodRatio(**ratio),
        reliability=tuple(tuple(row) for row in data["reliability"]),
        tail=Tail(**data["tail"]),
        histograms=Histograms.from_dict(data["histograms"]),
        people=data["people"],
        genuine_people=data["genuine_people"],
        largest_share=data["largest_share"],
        quality=tuple(QualityBin.from_dict(row) for row in data["quality"]),
        groups=tuple(GroupRates.from_dict(row) for row in data["groups"]),
        kinds=tuple(KindRates.from_dict(row) for row in data.get("kinds", ())),
    )


def as_text(value: Any, indent: int = 0) -> str:
    """Format as JSON with one line per field; rows of numbers stay on one line."""
    if not isinstance(value, dict | list) or _is_row(value):
        return json.dumps(value, ensure_ascii=False)
    pad = " " * (indent + 2)
    if isinstance(value, dict):
        lines = [f"{json.dumps(key)}: {as_text(item, indent + 2)}" for key, item in value.items()]
        opening, closing = "{", "}"
    else:
        lines = [as_text(item, indent + 2) for item in value]
        opening, closing = "[", "]"
    ending = "\n" + " " * indent + closing + ("" if indent else "\n")
    return opening + "\n" + ",\n".join(pad + line for line in lines) + ending


def content_hash(contents: dict[str, Any]) -> str:
    """Short hash of plain values, independent of the order of keys."""
    text = json.dumps(contents, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def write_whole(path: Path, text: str) -> None:
    """Write a file; an existing one is replaced atomically."""
    partial = path.with_name(path.name + ".partial")
    partial.write_text(text, encoding="utf-8")
    os.replace(partial, path)


def read_file(path: Path) -> dict[str, Any]:
    """Read the plain values of a calibration file.

    Raises:
        CalibrationError: The file cannot be read or is not a calibration.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, RecursionError, ValueError) as error:
        raise CalibrationError(f"The calibration {path} cannot be read: {error}.") from error
    if not isinstance(data, dict) or not isinstance(data.get("format"), int):
        raise CalibrationError(f"{path} is not a calibration.")
    return data


def _is_row(value: dict | list) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return not any(isinstance(item, dict | list | str) for item in items)


def _short(curves: ErrorCurves) -> ErrorCurves:
    def shorten(curve: RateCurve) -> RateCurve:
        rows = (significant(row) for row in (curve.low, curve.high, curve.effective))
        return RateCurve(curve.errors, curve.trials, *(np.asarray(row) for row in rows))

    return ErrorCurves(shorten(curves.fmr), shorten(curves.fnmr))
