"""D-Loss: the inverse decidability index of all pairs of a batch."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from training.losses.base import MetricLoss, inverse_margin

EPSILON = 1e-6
FLOOR = 1e-2


class DLoss(MetricLoss):
    r"""Decidability loss (Silva et al., IJCNN 2022), Eq. 4 of the PD-Loss paper.

    .. math:: \sqrt{(\sigma_g^2 + \sigma_i^2) / 2} \; / \; (|\mu_i - \mu_g| + \epsilon)

    over the cosine similarities of all genuine and impostor pairs in the batch. The paper's
    absolute value rewards impostors that are *more* alike than genuine pairs. Here, the inverse
    margin continues along its tangent below a margin of 0.01; above, it is the paper's.

    A batch without genuine or without impostor pairs has loss 0 and zero gradient.
    """

    def __init__(self, *, samples_per_class: int = 4) -> None:
        super().__init__()
        self.samples_per_class = samples_per_class

    def compute(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        unit = F.normalize(embeddings, dim=1)
        first, second = torch.triu_indices(len(unit), len(unit), 1, device=unit.device)
        similarity = (unit @ unit.T)[first, second]
        same = labels[first] == labels[second]
        genuine, impostor = similarity[same], similarity[~same]
        if genuine.numel() == 0 or impostor.numel() == 0:
            return embeddings.sum() * 0
        spread = (genuine.var(correction=0) + impostor.var(correction=0)) / 2 + EPSILON**2
        margin = genuine.mean() - impostor.mean() + EPSILON
        return spread.sqrt() * inverse_margin(margin, FLOOR)


def d_loss(classes: int, dim: int, *, samples_per_class: int = 4) -> DLoss:
    """D-Loss with the signature of the other losses; it has no proxies and ignores both sizes."""
    return DLoss(samples_per_class=samples_per_class)
