"""The rows of each batch; they depend only on the seed and the epoch."""

from __future__ import annotations

import numpy as np

from training.errors import UsageError


def epoch_batches(
    labels: np.ndarray, batch: int, samples_per_class: int | None, seed: int, epoch: int
) -> list[np.ndarray]:
    """The batches of an epoch: ``N // batch`` of them, at least one.

    Args:
        labels: int64 ``(N,)``.
        samples_per_class: None for a plain permutation. Otherwise each batch has this many rows
            of each of ``batch / samples_per_class`` classes, drawn with replacement if the class
            has fewer.

    Raises:
        UsageError: A batch would have no genuine or no impostor pairs.
    """
    rng = np.random.default_rng((seed, epoch))
    count = max(1, len(labels) // batch)
    if samples_per_class is None:
        order = rng.permutation(len(labels))
        return [order[start : start + batch] for start in range(0, count * batch, batch)]
    members = {label: np.flatnonzero(labels == label) for label in np.unique(labels)}
    classes = np.array([label for label, rows in members.items() if len(rows) > 1])
    if len(classes) == 0:
        raise UsageError("no class has two samples, so there are no genuine pairs to learn from")
    if len(classes) == 1:
        raise UsageError("only one class has two samples, so there are no impostor pairs to learn")
    groups = min(batch // samples_per_class, len(classes))
    if groups < 2:
        raise UsageError(
            f"batch {batch} holds one class only; this loss takes {samples_per_class} samples of "
            f"each and compares classes, so choose --batch {2 * samples_per_class} or more"
        )
    batches = []
    for _ in range(count):
        chosen = rng.choice(classes, groups, replace=False)
        rows = [
            rng.choice(members[c], samples_per_class, replace=len(members[c]) < samples_per_class)
            for c in chosen
        ]
        batches.append(np.concatenate(rows))
    return batches
