"""Mean and variance that can be computed in pieces, merged, and differentiated.

The statistics of PD-Loss over all sample-proxy pairs are moments, so the ``B x C`` matrix is never
stored: :func:`proxy_moments` processes the proxies in chunks, once for the value and once for the
gradient, and keeps one chunk of similarities at a time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from training.losses.streaming import Chunk, ProxyScores, at_length_one


@dataclass(frozen=True)
class Moments:
    """Count, mean and sum of squared deviations; merging is exact (Chan et al., 1979).

    Attributes:
        count: float64 scalar tensor.
        mean: float64 scalar tensor; 0 if the count is 0.
        squares: float64 scalar tensor, the sum of squared deviations from the mean.
    """

    count: Tensor
    mean: Tensor
    squares: Tensor

    @classmethod
    def empty(cls) -> Moments:
        zero = torch.zeros((), dtype=torch.float64)
        return cls(zero, zero, zero)

    @classmethod
    def of(cls, values: Tensor, skip: tuple[Tensor, Tensor] | None = None) -> Moments:
        """Two-pass moments of a tensor.

        Args:
            values: Any shape. With ``skip``, a matrix that is overwritten.
            skip: Row and column indices of entries to leave out.
        """
        count = values.numel()
        if skip is not None:
            values[skip] = 0
            count -= len(skip[0])
        if count == 0:
            return cls.empty()
        shift = values.sum() / count
        deviations = values.sub_(shift) if skip is not None else values - shift
        if skip is not None:
            deviations[skip] = 0
        flat = deviations.flatten()
        # The mean of the deviations is the rounding error of the first pass.
        residual = flat.sum().double() / count
        squares = torch.dot(flat, flat).double() - count * residual**2
        total = torch.tensor(float(count), dtype=torch.float64, device=values.device)
        return cls(total, shift.double() + residual, squares.clamp(min=0))

    def merge(self, other: Moments) -> Moments:
        """The moments of both samples together."""
        device = other.mean.device
        count = self.count.to(device) + other.count
        share = other.count / count.clamp(min=1)
        gap = other.mean - self.mean.to(device)
        return Moments(
            count,
            self.mean.to(device) + gap * share,
            self.squares.to(device) + other.squares + gap**2 * self.count.to(device) * share,
        )

    @property
    def variance(self) -> Tensor:
        """Population variance; 0 for one value or none."""
        return self.squares / self.count.clamp(min=1)


def proxy_moments(
    embeddings: Tensor, proxies: Tensor, scores: ProxyScores
) -> tuple[Tensor, Tensor, Tensor]:
    """Genuine cosine similarities, and mean and variance of the impostor ones.

    Exact, and differentiable in embeddings and proxies. Extra memory is one chunk, however many
    proxies there are.

    Args:
        embeddings: ``(B, D)``, of any nonzero length.
        proxies: ``(C, D)``, or this process's rows.
        scores: Labels, chunks and shards.

    Returns:
        ``(B,)``, scalar, scalar, in float32. Mean and variance are 0 without impostors.
    """
    return _ProxyMoments.apply(embeddings, proxies, scores)


class _ProxyMoments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, proxies: Tensor, scores: ProxyScores
    ) -> tuple[Tensor, Tensor, Tensor]:
        unit, _ = at_length_one(embeddings)
        impostor = Moments.empty()
        genuine = unit.new_zeros(len(unit))
        for chunk in scores.chunks(unit, proxies):
            genuine[chunk.own[0]] = chunk.cosines[chunk.own]
            moments = Moments.of(chunk.cosines, chunk.own)
            impostor = moments if chunk.rows.start == 0 else impostor.merge(moments)
        if scores.group is not None:
            impostor = _merge_over(impostor, scores.group)
            dist.all_reduce(genuine, group=scores.group)
        ctx.save_for_backward(embeddings, proxies, impostor.mean, impostor.count)
        ctx.scores = scores
        return genuine, impostor.mean.float(), impostor.variance.float()

    @staticmethod
    def backward(
        ctx: Any, d_genuine: Tensor, d_mean: Tensor, d_variance: Tensor
    ) -> tuple[Tensor, Tensor, None]:
        embeddings, proxies, mean, count = ctx.saved_tensors
        pairs = count.clamp(min=1).float()
        slope, level = 2 * d_variance / pairs, d_mean / pairs

        def derivative(chunk: Chunk) -> Tensor:
            weights = chunk.cosines.sub_(mean).mul_(slope).add_(level)
            weights[chunk.own] = d_genuine[chunk.own[0]]
            return weights

        return *ctx.scores.gradients(embeddings, proxies, derivative), None


def _merge_over(own: Moments, group: Any) -> Moments:
    mine = torch.stack([own.count, own.mean, own.squares])
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group=group)
    merged = Moments.empty()
    for part in parts:
        merged = merged.merge(Moments(*part))
    return merged
