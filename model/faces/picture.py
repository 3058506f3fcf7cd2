"""A photo that is decoded only as finely as needed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np


class Picture:
    """An upright photo: a copy of its pixels, and a way to get a finer copy.

    Positions are always in pixels of the whole photo. Not thread-safe.

    Args:
        pixels: uint8 array ``(H, W, 3)``: the photo, or a smaller copy of it.
        shape: ``(height, width, 3)`` of the whole photo, if ``pixels`` is a smaller copy.
        finer: Takes a number of pixels and returns a copy with a longest side of at least that,
            or the whole photo. Needed if ``pixels`` is a smaller copy.
    """

    def __init__(
        self,
        pixels: np.ndarray,
        *,
        shape: tuple[int, ...] | None = None,
        finer: Callable[[float], np.ndarray] | None = None,
    ) -> None:
        if pixels.ndim != 3 or pixels.shape[2] != 3 or pixels.dtype != np.uint8:
            raise ValueError(f"image must be uint8 (H, W, 3), not {pixels.dtype} {pixels.shape}.")
        self.shape = shape or pixels.shape
        self._pixels, self.finer = pixels, finer

    def pixels(self, side: float = np.inf) -> np.ndarray:
        """Return a copy with a longest side of at least ``side`` pixels, or the whole photo."""
        if self.finer and max(self._pixels.shape) < min(side, max(self.shape)):
            self._pixels = self.finer(side)
        return self._pixels

    def ratio(self, pixels: np.ndarray) -> np.ndarray:
        """Return how many pixels of the photo one pixel of a copy spans, ``(x, y)``."""
        return np.array(self.shape[1::-1]) / pixels.shape[1::-1]
