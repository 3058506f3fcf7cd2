"""Photos of faces that tests may use anywhere, because they come with installed packages.

Both are works of the United States government and in the public domain: Eileen Collins (NASA;
shipped with scikit-image) and Grace Hopper (US Navy; shipped with Matplotlib). What needs more
pictures is built from the two, or uses the datasets behind the ``shared_data`` fixture.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from PIL import Image


def _packaged(package: str, inside: str) -> Path:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        pytest.skip(f"{package} is not installed; it carries a sample photo")
    path = Path(spec.origin).parent / inside
    if not path.is_file():
        pytest.skip(f"this version of {package} does not carry {inside}")
    return path


def collins_path() -> Path:
    """Eileen Collins, 512x512 PNG, one face of about 100 pixels."""
    return _packaged("skimage", "data/astronaut.png")


def hopper_path() -> Path:
    """Grace Hopper, 512x600 JPEG, one face of about 190 pixels, with glasses."""
    return _packaged("matplotlib", "mpl-data/sample_data/grace_hopper.jpg")


def collins() -> np.ndarray:
    """uint8 RGB array ``(512, 512, 3)``."""
    return _pixels(collins_path())


def hopper() -> np.ndarray:
    """uint8 RGB array ``(600, 512, 3)``."""
    return _pixels(hopper_path())


def pair() -> np.ndarray:
    """Both side by side, ``(600, 1024, 3)``: a picture with two faces, Hopper's the larger."""
    canvas = np.full((600, 1024, 3), 128, np.uint8)
    canvas[:512, :512] = collins()
    canvas[:, 512:] = hopper()
    return canvas


def second_photo(image: np.ndarray) -> np.ndarray:
    """What another camera might have made of the same scene.

    Smaller, leaning by six degrees, warmer, with less contrast. A stand-in where a test needs
    two pictures of one person; it says nothing about accuracy.
    """
    picture = Image.fromarray(image).rotate(6, Image.Resampling.BICUBIC, fillcolor=(128,) * 3)
    picture = picture.resize(
        (picture.width * 4 // 5, picture.height * 4 // 5), Image.Resampling.LANCZOS
    )
    pixels = np.asarray(picture, np.float32) * (0.9, 0.85, 0.75) + 20
    return np.clip(pixels, 0, 255).astype(np.uint8)


def _pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.array(picture.convert("RGB"))
