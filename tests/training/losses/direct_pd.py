"""PD-Loss by the plain formula, to hold the streamed one against."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from training.losses import PDLoss


class DirectPDLoss(PDLoss):
    """Holds the whole matrix of similarities."""

    def statistics(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        similarity = F.normalize(embeddings, dim=1) @ F.normalize(self.proxies, dim=1).T
        own = F.one_hot(labels, similarity.shape[1]).bool()
        genuine, impostor = similarity[own], similarity[~own]
        if impostor.numel() == 0:
            impostor = similarity.sum()[None] * 0
        variance = genuine.var(correction=0) + impostor.var(correction=0)
        return genuine.mean() - impostor.mean(), variance
