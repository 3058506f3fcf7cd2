"""Crops of people who do not exist."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def made_up_people(root: Path, people: int = 60, photos: int = 2) -> None:
    """Fill ``root`` with a folder of noise a person, in the size of aligned crops."""
    rng = np.random.default_rng(0)
    for person in range(people):
        folder = root / f"p{person}"
        folder.mkdir(parents=True)
        for photo in range(photos):
            pixels = rng.integers(0, 256, (112, 112, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"{photo}.png")
