"""Encode and decode a calibration's measured parts as JSON."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from model.calibration.types import Parts
from model.errors import CalibrationError

MAX_DEPTH = 16
"""Most levels of lists and objects in a file; what `encode` writes has six."""


_PARTS = TypeAdapter(Parts)


def encode(parts: Parts) -> dict[str, Any]:
    """Convert the parts to plain values; intervals to five digits."""
    pairs = {
        "genuine_pairs": parts.everyone.fnmr.trials,
        "impostor_pairs": parts.everyone.fmr.trials,
    }
    return pairs | _PARTS.dump_python(parts)


def decode(data: dict[str, Any]) -> Parts:
    """The inverse of `encode`.

    Raises:
        ValueError: A value is missing or of another type, or the data is nested more than
            `MAX_DEPTH` levels deep.
    """
    _check_depth(data, MAX_DEPTH)
    return _PARTS.validate_json(json.dumps(data), strict=True)


def as_text(value: Any, indent: int = 0) -> str:
    """Format as JSON with one line per field; rows of numbers stay on one line."""
    if not isinstance(value, dict | list | tuple) or _is_row(value):
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


def _check_depth(value: Any, levels: int) -> None:
    if not isinstance(value, dict | list | tuple):
        return
    if not levels:
        raise ValueError(f"it is nested more than {MAX_DEPTH} levels deep")
    for item in value.values() if isinstance(value, dict) else value:
        _check_depth(item, levels - 1)


def _is_row(value: dict | list | tuple) -> bool:
    items = value.values() if isinstance(value, dict) else value
    return not any(isinstance(item, dict | list | tuple | str) for item in items)
