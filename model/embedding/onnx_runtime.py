"""ONNX Runtime, imported here alone: it sends usage data home unless told not to beforehand."""

from __future__ import annotations

import os

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # on Linux and macOS, since its version 1.29

import onnxruntime

onnxruntime.disable_telemetry_events()  # on Windows, which does not read the variable

__all__ = ["onnxruntime"]
