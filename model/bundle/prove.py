"""Test an imported model in a separate process that can be killed.

Usage: ``python -m model.bundle.prove FOLDER``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np

from model.bundle.bundle import Bundle
from model.embedding.embedder import Embedder
from model.errors import BundleError
from model.types import CROP_SIZE

SECONDS = 180.0
"""Most seconds a model may take to load and embed three crops."""


def prove(bundle: Bundle) -> None:
    """Embed three random crops as a test.

    Raises:
        BundleError: The model does not return one finite vector per crop.
    """
    crops = np.random.default_rng(0).integers(0, 256, (3, CROP_SIZE, CROP_SIZE, 3), np.uint8)
    vectors = Embedder(bundle).embed(crops)
    if vectors.ndim != 2 or len(vectors) != len(crops) or not np.isfinite(vectors).all():
        raise BundleError(f"{bundle.name} gives {vectors.shape}, not one finite vector per crop.")


def prove_apart(folder: Path, seconds: float = SECONDS) -> None:
    """Test a bundle in another process, because it may hang or use up the memory.

    Raises:
        BundleError: The model does not work, or takes longer than ``seconds``.
    """
    root = str(Path(__file__).parents[2])
    try:
        done = subprocess.run(
            [sys.executable, "-m", "model.bundle.prove", str(folder)],
            env={**os.environ, "PYTHONPATH": root}, capture_output=True, text=True,
            timeout=seconds,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise BundleError(
            f"The model gave no vector within {seconds:g} s. It may run forever."
        ) from None
    if done.returncode:
        lines = done.stderr.strip().splitlines()
        raise BundleError(
            lines[-1] if lines else f"The model's process ended with code {done.returncode}."
        )


def main() -> int:
    """Test the bundle named on the command line; print the error and return 1 if it fails."""
    try:
        prove(Bundle.load(sys.argv[1]))
    except Exception as error:  # ONNX Runtime's errors share no class
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
