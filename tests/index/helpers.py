"""Synthetic people: unit vectors in clusters, one cluster a person."""

from __future__ import annotations

import numpy as np

from index.search import PeopleSearch
from index.types import NewPhoto
from model.types import Embedding, Match

MODEL = "model-a"
DIMENSION = 64


def unit(vectors: np.ndarray) -> np.ndarray:
    return (vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)).astype(np.float32)


class Faces:
    """A source of photos; the same seed gives the same people."""

    def __init__(self, people: int = 50, dimension: int = DIMENSION, seed: int = 0) -> None:
        self.random = np.random.default_rng(seed)
        self.centres = unit(self.random.standard_normal((people, dimension)))
        self.made = 0

    def vector(self, person: int, spread: float = 0.5) -> np.ndarray:
        """A photo's vector; cosine to another of the same person is about 1/(1 + spread**2)."""
        dimension = self.centres.shape[1]
        noise = self.random.standard_normal(dimension) * spread / np.sqrt(dimension)
        return unit(self.centres[person] + noise)

    def embedding(self, person: int, spread: float = 0.5) -> Embedding:
        return Embedding(self.vector(person, spread), MODEL)

    def photo(self, person: int, **changes: object) -> NewPhoto:
        self.made += 1
        values = {
            "embedding": self.embedding(person),
            "content_hash": f"hash-{self.made}",
            "quality": 0.9,
            "source_name": f"file-{self.made}.jpg",
            "thumbnail": b"\xff\xd8 thumbnail of " + self.random.bytes(300),
            "note": f"outlier: reason-{self.made}",
        }
        return NewPhoto(**(values | changes))

    def photos(self, person: int, count: int = 3) -> list[NewPhoto]:
        return [self.photo(person) for _ in range(count)]


def exact_search(
    ids: np.ndarray, vectors: np.ndarray, queries: np.ndarray, k: int
) -> tuple[np.ndarray, np.ndarray]:
    """The oracle: every query against every vector, with numpy alone."""
    scores = queries.astype(np.float64) @ vectors.astype(np.float64).T
    order = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, order, 1), np.asarray(ids)[order]


def matches(
    search: PeopleSearch, query: Embedding, k: int = 5, *, threshold: float = 0.5
) -> list[Match]:
    """The people at or above a threshold, best first."""
    (result,) = search.search_many([query], k)
    return [match for match in result.nearest if match.score >= threshold]
