"""The distillation loss."""

from __future__ import annotations

from torch import Tensor

GRAM = 4.0
"""Weight of the Gram term."""


def distillation_loss(
    vectors: Tensor, targets: Tensor, gram: float = GRAM
) -> tuple[Tensor, Tensor]:
    """1 - cosine to the targets, plus the squared difference of the batch's Gram matrices.

    Args:
        vectors: Unit vectors ``(B, D)`` of the student.
        targets: Unit target vectors ``(B, D)``.
        gram: Weight of the second term.

    Returns:
        The loss, and its first term, the mean cosine distance (detached).
    """
    distance = 1 - (vectors * targets).sum(1).mean()
    difference = vectors @ vectors.T - targets @ targets.T
    return distance + gram * difference.square().mean(), distance.detach()
