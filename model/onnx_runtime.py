"""The only import of ONNX Runtime: telemetry must be disabled before it is imported."""

from __future__ import annotations

import os
from pathlib import Path

from model.errors import EngineUnavailable
from model.workers import processors

os.environ["ORT_DISABLE_TELEMETRY"] = "1"  # for Linux and macOS, since version 1.29

import onnxruntime

onnxruntime.disable_telemetry_events()  # for Windows, where the variable has no effect

__all__ = ["onnxruntime", "open_session"]


def open_session(
    graph: bytes | Path, *, device: str = "cpu", threads: int | None = None
) -> onnxruntime.InferenceSession:
    """Open an ONNX Runtime session on exactly this device.

    ``threads`` is the most to use; all processors if None.

    Raises:
        EngineUnavailable: ONNX Runtime cannot use the device.
    """
    provider = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}.get(device)
    if provider not in onnxruntime.get_available_providers():
        raise EngineUnavailable(
            f"ONNX Runtime has no {device} support on this machine; it offers "
            f"{', '.join(onnxruntime.get_available_providers())}."
        )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = threads or processors()
    # Spinning idle threads would take CPU time from face detection.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    source = graph if isinstance(graph, bytes) else str(graph)
    session = onnxruntime.InferenceSession(source, options, providers=[provider])
    if session.get_providers()[0] != provider:  # it falls back to the CPU silently
        raise EngineUnavailable(f"ONNX Runtime could not start on {device}; its log says why.")
    return session
