"""Find the worst pairs: highest-scoring strangers, lowest-scoring same-person pairs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from model.calibration.pairs.scores import Collection, Progress, Tile, from_grid, tiles


@dataclass(frozen=True)
class ScoredPair:
    """Two photos, as rows of the caller's arrays, and their score."""

    first: int
    second: int
    score: float


def worst_pairs(
    embeddings: np.ndarray, labels: np.ndarray, count: int, progress: Progress | None = None
) -> tuple[list[ScoredPair], list[ScoredPair]]:
    """Return the ``count`` highest stranger pairs and lowest same-person pairs.

    Each person (or couple of people) appears with at most one pair, so that nobody fills the list.

    Returns:
        ``(false matches, false non-matches)``, worst first.
    """
    collection = Collection.of(embeddings, labels, np.zeros(len(labels), int))
    alike: list[tuple[int, int, int]] = []
    unlike: list[tuple[int, int, int]] = []
    for tile in tiles(collection, progress):
        mated = collection.person[tile.rows] == collection.person[tile.cols]
        for found, chosen, sign in ((alike, ~mated, -1), (unlike, mated, 1)):
            rows = _first(tile, collection, np.flatnonzero(chosen), sign, count)
            found.extend(
                zip(
                    (sign * tile.index[rows]).tolist(),
                    tile.rows[rows].tolist(),
                    tile.cols[rows].tolist(),
                    strict=True,
                )
            )
    return _first_of_each(collection, alike, count), _first_of_each(collection, unlike, count)


def _first(
    tile: Tile, collection: Collection, rows: np.ndarray, sign: int, count: int
) -> np.ndarray:
    """Select the worst pairs of a tile: enough for ``count`` couples, or all."""
    key = sign * tile.index[rows]
    wanted = 20 * count
    while wanted < len(rows):
        chosen = rows[np.argpartition(key, wanted - 1)[:wanted]]
        couples = np.stack([collection.person[side[chosen]] for side in (tile.rows, tile.cols)])
        if np.unique(couples, axis=1).shape[1] >= count:
            return chosen
        wanted *= 4
    return rows


def _first_of_each(
    collection: Collection, found: list[tuple[int, int, int]], count: int
) -> list[ScoredPair]:
    pairs: dict[tuple[int, int], ScoredPair] = {}
    for key, row, col in sorted(found):
        couple = int(collection.person[row]), int(collection.person[col])
        if couple not in pairs:
            first, second = int(collection.order[row]), int(collection.order[col])
            pairs[couple] = ScoredPair(first, second, float(from_grid(np.array(abs(key)))))
        if len(pairs) == count:
            break
    return list(pairs.values())
