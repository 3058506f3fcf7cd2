"""Vectors in identity clusters, made up or grown from real embeddings."""

from __future__ import annotations

from pathlib import Path

import numpy as np

PHOTOS = 5
"""Photos a person."""


class Crowd:
    """A crowd of people with five photos each.

    Args:
        dimension: Length of a vector; that of the file when ``source`` is given.
        source: Archive with ``embeddings`` and ``labels``. Its photos come first; past them,
            people are made by turning real ones at random, which keeps the spread of a
            person's photos and the distances between people, and jittering the photos.
    """

    def __init__(self, dimension: int = 512, source: Path | None = None) -> None:
        self._real = None
        self.dimension = dimension
        if source is not None:
            with np.load(source) as data:
                vectors, labels = data["embeddings"].astype(np.float32), data["labels"]
            several = [np.flatnonzero(labels == label) for label in np.unique(labels)]
            # The last column is the query: a photo that is not among the enrolled ones.
            rows = [
                np.append(np.resize(own[1:], PHOTOS), own[0]) for own in several if len(own) > 1
            ]
            self._real = _unit(vectors)[np.array(rows)]
            self.dimension = vectors.shape[1]

    def rows(self, count: int, queries: int) -> tuple[np.ndarray, np.ndarray]:
        """Photos ``(count, D)``, float16, person ``i // 5`` in row ``i``; and queries.

        Returns:
            The photos, and ``queries`` further photos of the first people, float32.
        """
        random = np.random.default_rng(0)
        people = -(-count // PHOTOS)
        step = 4096 if self._real is None else len(self._real)
        photos = np.empty((people * PHOTOS, self.dimension), np.float16)
        asked = []
        for start in range(0, people, step):
            some = self._people(random, start == 0)[: people - start]
            photos[start * PHOTOS : (start + len(some)) * PHOTOS] = some[:, :PHOTOS].reshape(
                -1, self.dimension
            )
            asked.append(some[: max(0, queries - start), PHOTOS])
        return photos[:count], np.concatenate(asked)[:queries].astype(np.float32)

    def _people(self, random: np.random.Generator, first: bool) -> np.ndarray:
        """Some thousand new people, ``(n, 6, D)``."""
        if self._real is None:
            centres = _unit(random.standard_normal((4096, 1, self.dimension), np.float32))
            # Photos of a person then have a cosine of about 0.6.
            return _unit(centres + 0.8 * self._noise(random, 4096))
        if first:
            return self._real
        # One turn for all real people makes as many new ones, as far apart as the real are.
        turn = np.linalg.qr(random.standard_normal((self.dimension, self.dimension)))[0]
        turned = self._real @ turn.astype(np.float32)
        return _unit(turned + 0.3 * self._noise(random, len(turned)))

    def _noise(self, random: np.random.Generator, count: int) -> np.ndarray:
        shape = (count, PHOTOS + 1, self.dimension)
        return random.standard_normal(shape, np.float32) / np.float32(np.sqrt(self.dimension))


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
