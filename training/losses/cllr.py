"""Cllr-loss: the cost of the best calibration of a batch's scores."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from scipy.special import expit
from torch import Tensor

from training.errors import UsageError
from training.losses.base import ProxyLoss
from training.losses.streaming import TINY, Chunk, ProxyScores, at_length_one

LOWEST = 1.0
"""Smallest slope of the calibration. Random proxies would fit 0, where the gradient vanishes."""

STEPS, ENOUGH = 30, 1e-3
"""At most so many Newton steps. After one that moves all logits by less, the next would be below
rounding, as its length is about the square."""

BINS = 1 << 13
"""Impostor cosines are fitted by their histogram, which moves none by more than 1 / BINS."""


class CllrLoss(ProxyLoss):
    r"""The log-likelihood-ratio cost of sample-to-proxy cosines after their best calibration.

    .. math:: \min_{1 \le t \le t_{max},\, c} \frac{1}{H(\pi)} \left[
              \pi \, \overline{\log(1 + e^{-z_{gen}})} + (1 - \pi) \,
              \overline{\log(1 + e^{z_{imp}})} \right], \quad z = t s + c + \log\frac{\pi}{1 - \pi}

    over the cosines of samples to their own proxy and to all others. :math:`t s + c` is the log
    likelihood ratio of logistic regression, the calibration this product reports. The cost is 1
    for uninformative scores and 0 for perfectly separated ones. The prior :math:`\pi` is an
    operating point: the smaller it is, the more the highest impostor scores weigh.

    The fit is a minimum, so by the envelope theorem the gradient may treat :math:`t` and :math:`c`
    as constants: there is no differentiation through the fit. Without the cap on :math:`t`,
    separable scores would have cost 0 and no gradient. The proxies are processed in chunks, once
    for the value and once for the gradient, so the ``B x C`` matrix is never stored.

    Args:
        classes: Number of classes, C.
        dim: Length of the embeddings, D.
        prior: Prior probability of a genuine comparison, above 0 and below 1.
        cap: Largest slope of the calibration, above 1.
        shard: ``(rank, world, group)`` to hold only this process's shard of the proxies. Every
            process must then see the whole batch.

    Example:
        >>> loss = CllrLoss(classes=100, dim=512)
        >>> loss(torch.randn(32, 512), torch.randint(100, (32,))).backward()
    """

    def __init__(
        self, classes: int, dim: int, *, prior: float = 0.02, cap: float = 16.0,
        shard: tuple[int, int, Any] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(classes, dim, shard)
        if not 0 < prior < 1:
            raise UsageError(f"prior is {prior}; it must be above 0 and below 1")
        if not cap > LOWEST:
            raise UsageError(f"cap is {cap}; it must be above {LOWEST:g}")
        self.prior, self.cap = prior, cap

    def compute(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.check_labels(labels)
        scores = ProxyScores(labels, offset=self.offset, group=self.group)
        entropy = -self.prior * math.log(self.prior) - (1 - self.prior) * math.log1p(-self.prior)
        return _Cost.apply(embeddings, self.proxies, scores, self) / entropy

    def fit(
        self, scores: np.ndarray, targets: np.ndarray, weights: np.ndarray
    ) -> tuple[float, float]:
        """Minimise the cost by Newton's method.

        Args:
            scores: Cosines, float64 ``(N,)``.
            targets: 1 for a genuine cosine, 0 for an impostor one.
            weights: Weight of each in the cost.

        Returns:
            Slope, and shift including the log odds of the prior.
        """
        squares, ends = scores**2, (scores.min(), scores.max())
        own, others = (
            np.array([side.sum(), side @ scores, side @ squares]) / max(side.sum(), TINY)
            for side in (weights * targets, weights * (1 - targets))
        )
        # Start from the calibration of two Gaussians of equal variance.
        variance = (own[2] - own[1] ** 2 + others[2] - others[1] ** 2) / 2
        slope = min(max((own[1] - others[1]) / max(variance, TINY), LOWEST), self.cap)
        shift = math.log(self.prior / (1 - self.prior)) - slope * (own[1] + others[1]) / 2
        for _ in range(STEPS):
            chance = expit(scores * slope + shift)
            error, curve = weights * (chance - targets), weights * chance * (1 - chance)
            gradient = error @ scores, error.sum()
            hessian = curve @ squares, curve @ scores, curve.sum()
            free = not (
                (slope >= self.cap and gradient[0] < 0) or (slope <= LOWEST and gradient[0] > 0)
            )
            step = _newton(gradient, hessian, free)
            # Damped by the largest change of a logit, steps decrease the cost from anywhere.
            size = max(abs(step[0] * end + step[1]) for end in ends)
            share = math.log1p(size) / size if size > 0 else 0.0
            slope = min(max(slope - share * step[0], LOWEST), self.cap)
            shift -= share * step[1]
            if size < ENOUGH:
                break
        return slope, shift


def _newton(
    gradient: tuple[float, float], hessian: tuple[float, float, float], free: bool
) -> tuple[float, float]:
    """Newton step of slope and shift, or of the shift alone if the slope is at its bound.

    Args:
        gradient: By slope and shift.
        hessian: By slope twice, slope and shift, shift twice.
        free: Whether the slope may move.
    """
    a, b, d = hessian
    d = max(d, TINY)
    if not free:
        return 0.0, gradient[1] / d
    determinant = max(a * d - b * b, 1e-6 * a * d, 1e-24)
    return (
        (d * gradient[0] - b * gradient[1]) / determinant,
        (a * gradient[1] - b * gradient[0]) / determinant,
    )


class _Cost(torch.autograd.Function):
    """The cost in nats. Its gradient is exact for the calibration fitted to the histogram."""

    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, proxies: Tensor, scores: ProxyScores, loss: CllrLoss
    ) -> Tensor:
        unit, _ = at_length_one(embeddings)
        genuine = unit.new_zeros(len(unit))
        counts = unit.new_zeros(BINS, dtype=torch.int64)
        for chunk in scores.chunks(unit, proxies):
            genuine[chunk.own[0]] = chunk.cosines[chunk.own]
            bins = chunk.cosines.add_(1).mul_(BINS / 2).int().clamp_(0, BINS - 1)
            bins[chunk.own] = BINS  # left out below
            counts += torch.bincount(bins.flatten(), minlength=BINS + 1)[:BINS]
        if scores.group is not None:
            dist.all_reduce(genuine, group=scores.group)
            dist.all_reduce(counts, group=scores.group)
        impostors = counts.cpu().numpy().astype(np.float64)
        filled = impostors.nonzero()[0]
        points = np.concatenate([genuine.cpu().numpy(), (filled + 0.5) * (2 / BINS) - 1])
        targets = (np.arange(len(points)) < len(unit)).astype(np.float64)
        ctx.of_genuine = loss.prior / len(unit)
        ctx.of_impostor = (1 - loss.prior) / max(1.0, impostors.sum())
        weights = ctx.of_genuine * targets
        weights[len(unit) :] = ctx.of_impostor * impostors[filled]
        ctx.slope, ctx.shift = loss.fit(points, targets, weights)
        ctx.save_for_backward(embeddings, proxies)
        ctx.scores = scores
        wrong = (1 - 2 * targets) * (points * ctx.slope + ctx.shift)
        return unit.new_tensor(weights @ np.logaddexp(0, wrong))

    @staticmethod
    def backward(ctx: Any, d_cost: Tensor) -> tuple[Tensor, Tensor, None, None]:
        def derivative(chunk: Chunk) -> Tensor:
            chance = chunk.cosines.mul_(ctx.slope).add_(ctx.shift).sigmoid_()
            genuine = (chance[chunk.own] - 1).mul_(ctx.slope * ctx.of_genuine * d_cost)
            chance.mul_(ctx.slope * ctx.of_impostor * d_cost)[chunk.own] = genuine
            return chance

        return *ctx.scores.gradients(*ctx.saved_tensors, derivative), None, None
