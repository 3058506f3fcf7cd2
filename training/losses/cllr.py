"""Cllr-loss: the cost of the best calibration of a batch's scores."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from training.errors import UsageError
from training.losses.base import ProxyLoss

LOWEST = 1.0
"""Smallest slope of the calibration. Random proxies would fit 0, where the gradient vanishes."""

STEPS, ENOUGH = 30, 1e-4


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
    separable scores would have cost 0 and no gradient.

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
        if self.group is not None:
            embeddings = _Shared.apply(embeddings, self.group)
        cosines = F.normalize(embeddings, dim=1) @ F.normalize(self.proxies, dim=1).T
        own = self.own_proxies(labels)
        impostors = len(labels) * (self.classes - 1)
        weights = self.prior / len(labels), (1 - self.prior) / max(1, impostors)
        slope, shift = self.fit(cosines.detach(), own, weights)
        logits = cosines * slope + shift
        genuine = logits[own]
        # Sum over all scores, minus the genuine ones: avoids a (B, C) mask.
        everyone = F.softplus(logits).sum() - F.softplus(genuine).sum()
        cost = weights[0] * F.softplus(-genuine).sum() + weights[1] * everyone
        if self.group is not None:
            cost = _Sum.apply(cost, self.group)
        entropy = -self.prior * math.log(self.prior) - (1 - self.prior) * math.log1p(-self.prior)
        return cost / entropy

    @torch.no_grad()
    def fit(
        self, cosines: Tensor, own: tuple[Tensor, Tensor], weights: tuple[float, float]
    ) -> tuple[float, float]:
        """Minimise the cost by Newton's method.

        Args:
            cosines: ``(B, C)``, or this process's columns.
            own: Rows and columns of the genuine scores.
            weights: Weights of a genuine and of an impostor score.

        Returns:
            Slope, and shift including the log odds of the prior.
        """
        log_odds = math.log(self.prior / (1 - self.prior))
        slope, shift = self.cap, log_odds - self.cap * float(self._mean(cosines, own))
        squares = cosines.square()
        for _ in range(STEPS):
            gradient, hessian = self._derivatives(cosines, squares, own, weights, slope, shift)
            free = not (
                (slope >= self.cap and gradient[0] < 0) or (slope <= LOWEST and gradient[0] > 0)
            )
            step = _newton(gradient, hessian, free)
            # Damped steps decrease the cost from any starting point.
            size = abs(step[0]) + abs(step[1])
            share = math.log1p(size) / size if size > 0 else 0.0
            slope = min(max(slope - share * step[0], LOWEST), self.cap)
            shift -= share * step[1]
            if size < ENOUGH:
                break
        return slope, shift

    def _mean(self, cosines: Tensor, own: tuple[Tensor, Tensor]) -> Tensor:
        """Midpoint of the mean genuine and mean impostor cosine, as the initial guess."""
        sums = torch.stack([cosines[own].sum().double(), cosines.sum().double()])
        if self.group is not None:
            dist.all_reduce(sums, group=self.group)
        rows = len(cosines)
        impostor = (sums[1] - sums[0]) / max(1, rows * (self.classes - 1))
        return (sums[0] / rows + impostor) / 2

    def _derivatives(
        self, cosines: Tensor, squares: Tensor, own: tuple[Tensor, Tensor],
        weights: tuple[float, float], slope: float, shift: float,
    ) -> tuple[list[float], list[float]]:  # fmt: skip
        """Gradient (slope, shift) and Hessian (slope², slope·shift, shift²) of the cost."""
        chance = torch.sigmoid(cosines * slope + shift)
        curve = chance * (1 - chance)
        mine, score = chance[own], cosines[own]
        bend = curve[own]
        flat = cosines.flatten()
        impostor = torch.stack([
            torch.dot(chance.flatten(), flat) - torch.dot(mine, score),
            chance.sum() - mine.sum(),
            torch.dot(curve.flatten(), squares.flatten()) - torch.dot(bend, score.square()),
            torch.dot(curve.flatten(), flat) - torch.dot(bend, score),
            curve.sum() - bend.sum(),
        ])  # fmt: skip
        genuine = torch.stack([
            torch.dot(mine - 1, score), (mine - 1).sum(),
            torch.dot(bend, score.square()), torch.dot(bend, score), bend.sum(),
        ])  # fmt: skip
        sums = weights[0] * genuine.double() + weights[1] * impostor.double()
        if self.group is not None:
            dist.all_reduce(sums, group=self.group)
        values = sums.tolist()
        return values[:2], values[2:]


def _newton(gradient: list[float], hessian: list[float], free: bool) -> tuple[float, float]:
    """Newton step of slope and shift, or of the shift alone if the slope is at its bound."""
    a, b, d = hessian
    d = max(d, 1e-12)
    if not free:
        return 0.0, gradient[1] / d
    determinant = max(a * d - b * b, 1e-6 * a * d, 1e-24)
    return (
        (d * gradient[0] - b * gradient[1]) / determinant,
        (a * gradient[1] - b * gradient[0]) / determinant,
    )


class _Sum(torch.autograd.Function):
    """Sum over processes; each process keeps the gradient of its own part."""

    @staticmethod
    def forward(ctx: Any, part: Tensor, group: Any) -> Tensor:
        whole = part.clone()
        dist.all_reduce(whole, group=group)
        return whole

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Shared(torch.autograd.Function):
    """The same tensor in all processes; its gradient is the sum over them."""

    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> Tensor:
        ctx.group = group
        return tensor

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        whole = gradient.clone()
        dist.all_reduce(whole, group=ctx.group)
        return whole, None
