"""PD-Loss: the decidability index estimated through learnable class proxies."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from training.errors import UsageError
from training.losses.base import ProxyLoss, inverse_margin, minus_log
from training.losses.moments import proxy_moments
from training.losses.streaming import ProxyScores

EPSILON = 1e-6
FLOOR = 1e-2


class PDLoss(ProxyLoss):
    r"""Proxy-Decidability Loss (Silva et al.), Eqs. 5 and 6.

    .. math:: -\log(\mu_{gen} - \mu_{imp} + \epsilon_1)
              + \tfrac12 \log(\sigma^2_{gen} + \sigma^2_{imp} + \epsilon_2)

    over the scaled cosine similarities of samples to their own proxy and to all others.

    The first logarithm is undefined if the genuine mean is below the impostor mean. With random
    proxies that happens in every second batch. Below a margin of 0.01 in cosine, the term continues
    along its tangent, with a finite gradient that always raises the margin. Above, it is exactly
    the paper's.

    Temperature divides means and standard deviations alike, so it cancels: as :math:`\epsilon` goes
    to 0, value and gradient do not depend on it. With the paper's :math:`10^{-6}` it only scales
    :math:`\epsilon_2` (:math:`\epsilon_2 \tau^2` in units of cosine). For the same reason the loss
    does not reward large similarities, only equal ones: it ignores the part of an embedding outside
    the span of the proxies. An ``epsilon`` of about the variance of the similarities, such as 0.01,
    makes it take that part into account.

    Args:
        classes: Number of classes, C.
        dim: Length of the embeddings, D.
        temperature: Divides the similarities.
        log: False gives the ratio itself, ``sqrt(variances) / margin`` (the ablation).
        epsilon: Both stabilisers of Eq. 6; positive, as equal similarities have variance 0.
        last_epsilon: Value of ``epsilon`` at the end of the run, reached geometrically (not in
            the paper); constant if None.
        shard: ``(rank, world, group)`` to hold only this process's shard of the proxies. Every
            process must then see the whole batch.

    Example:
        >>> import torch
        >>> loss = PDLoss(classes=100, dim=512)
        >>> loss(torch.randn(32, 512), torch.randint(100, (32,))).backward()
    """

    def __init__(
        self,
        classes: int,
        dim: int,
        *,
        temperature: float = 1.0,
        log: bool = True,
        epsilon: float = EPSILON,
        last_epsilon: float | None = None,
        shard: tuple[int, int, Any] | None = None,
    ) -> None:
        super().__init__(classes, dim, shard)
        if temperature <= 0:
            raise UsageError(f"temperature is {temperature}; it must be positive")
        self.last_epsilon = epsilon if last_epsilon is None else last_epsilon
        if min(epsilon, self.last_epsilon) <= 0:
            raise UsageError(f"epsilon is {min(epsilon, self.last_epsilon)}; it must be positive")
        self.temperature, self.log, self.epsilon = temperature, log, epsilon

    def compute(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.check_labels(labels)
        margin, variance = self.statistics(embeddings, labels)
        scale = 1 / self.temperature
        epsilon = self.epsilon * (self.last_epsilon / self.epsilon) ** self.progress
        margin = margin * scale + epsilon
        spread = variance * scale**2 + epsilon
        if self.log:
            return minus_log(margin, FLOOR * scale) + 0.5 * spread.log()
        return spread.sqrt() * inverse_margin(margin, FLOOR * scale)

    def statistics(self, embeddings: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Margin of the means and sum of the variances, of cosines; computed in chunks."""
        scores = ProxyScores(labels, offset=self.offset, group=self.group)
        genuine, mean, impostor = proxy_moments(embeddings, self.proxies, scores)
        return genuine.mean() - mean, genuine.var(correction=0) + impostor
