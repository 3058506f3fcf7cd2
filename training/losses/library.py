"""Baseline losses from pytorch-metric-learning, with the hyperparameters of their papers."""

from __future__ import annotations

import torch
from pytorch_metric_learning import losses, miners
from torch import Tensor, nn

from training.losses.base import MetricLoss, kaiming_proxies


class LibraryLoss(MetricLoss):
    """A loss of pytorch-metric-learning, with a miner where its paper has one.

    All proxies start Kaiming-uniform, like those of PD-Loss, so that all losses start at the same
    proxy length. Under cosine similarity a proxy of length n turns n times more slowly for the
    same step. The library starts ProxyNCA's at length ``sqrt(D)``, at D = 512 sixteen times
    longer than PD-Loss's.

    Args:
        loss: The library's loss; its ``proxies`` or ``W`` become :attr:`proxies`.
        miner: Optional pair miner.
        samples_per_class: Pictures per class that the sampler must provide.
    """

    def __init__(
        self,
        loss: nn.Module,
        miner: nn.Module | None = None,
        samples_per_class: int | None = None,
    ) -> None:
        super().__init__()
        self.loss, self.miner, self.samples_per_class = loss, miner, samples_per_class
        self.transposed = hasattr(loss, "W")
        # Alias the library's parameter without registering it, or it would be saved twice.
        self.__dict__["proxies"] = getattr(loss, "W", getattr(loss, "proxies", None))
        if self.proxies is not None:
            shape = self.proxies.shape[::-1] if self.transposed else self.proxies.shape
            values = kaiming_proxies(*shape)
            with torch.no_grad():
                self.proxies.copy_(values.T if self.transposed else values)

    def compute(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        pairs = self.miner(embeddings, labels) if self.miner is not None else None
        return self.loss(embeddings, labels, pairs)


def proxy_nca(classes: int, dim: int, *, scale: float = 9.0) -> LibraryLoss:
    """ProxyNCA (Movshovitz-Attias et al., 2017): squared distances of unit vectors.

    The paper gives no scale. Common implementations use vectors of length 3, a factor of 9 on
    squared distances, so 9 is the default; the library's is 1. The paper's Eq. 3 leaves a sample's
    own proxy out of the denominator; the library keeps it in, as a softmax does.
    """
    return LibraryLoss(losses.ProxyNCALoss(classes, dim, softmax_scale=scale))


def proxy_anchor(
    classes: int, dim: int, *, margin: float = 0.1, alpha: float = 32.0
) -> LibraryLoss:
    """ProxyAnchor (Kim et al., 2020): margin 0.1, alpha 32."""
    return LibraryLoss(losses.ProxyAnchorLoss(classes, dim, margin=margin, alpha=alpha))


def multi_similarity(
    classes: int,
    dim: int,
    *,
    alpha: float = 2.0,
    beta: float = 50.0,
    base: float = 0.5,
    mining_margin: float = 0.1,
) -> LibraryLoss:
    """Multi-Similarity (Wang et al., 2019): alpha 2, beta 50, mining margin 0.1.

    Lambda (``base``) is 0.5 as in the authors' published code; their paper says 1, which is worse.
    """
    loss = losses.MultiSimilarityLoss(alpha=alpha, beta=beta, base=base)
    return LibraryLoss(loss, miners.MultiSimilarityMiner(mining_margin), samples_per_class=4)


def circle(
    classes: int, dim: int, *, m: float = 0.4, gamma: float = 80.0, mining_margin: float = 0.1
) -> LibraryLoss:
    """Circle (Sun et al., 2020): m 0.4 and gamma 80, the paper's for fine-grained retrieval."""
    loss = losses.CircleLoss(m=m, gamma=gamma)
    return LibraryLoss(loss, miners.MultiSimilarityMiner(mining_margin), samples_per_class=4)


def arcface(classes: int, dim: int, *, margin: float = 0.5, scale: float = 64.0) -> LibraryLoss:
    """ArcFace (Deng et al., 2019): margin 0.5 radians, scale 64."""
    degrees = float(torch.rad2deg(torch.tensor(margin)))
    return LibraryLoss(losses.ArcFaceLoss(classes, dim, margin=degrees, scale=scale))
