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
import torch.nn.functional as F
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""Upper bound of ``chunk x (B + D)``, the floats stored per chunk: 16 MB in float32."""

TINY = 1e-12


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
    embeddings: Tensor,
    proxies: Tensor,
    labels: Tensor,
    *,
    chunk: int | None = None,
    offset: int = 0,
    group: Any = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Genuine cosine similarities, and mean and variance of the impostor ones.

    Exact, and differentiable in embeddings and proxies. Extra memory is one chunk, however many
    proxies there are.

    Args:
        embeddings: ``(B, D)``, of any nonzero length.
        proxies: ``(C, D)``, or this process's rows.
        labels: int64 ``(B,)``, the row of each sample's own proxy over all processes; the caller
            checks that it exists.
        chunk: Proxies per step; chosen from ``B`` and ``D`` if None.
        offset: Index of this process's first proxy, if they are sharded.
        group: Process group the proxies are sharded over. Every process must pass the same
            embeddings and labels, and gets the full gradient of the embeddings.

    Returns:
        ``(B,)``, scalar, scalar, in float32. Mean and variance are 0 without impostors.
    """
    return _ProxyMoments.apply(embeddings, proxies, labels, chunk, offset, group)


class _ProxyMoments(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        embeddings: Tensor,
        proxies: Tensor,
        labels: Tensor,
        chunk: int | None,
        offset: int,
        group: Any,
    ) -> tuple[Tensor, Tensor, Tensor]:
        unit = F.normalize(embeddings.float(), dim=1, eps=TINY)
        size = chunk or max(1, CHUNK_ELEMENTS // sum(unit.shape))
        impostor = Moments.empty()
        genuine = unit.new_zeros(len(unit))
        for start in range(0, len(proxies), size):
            part = F.normalize(proxies[start : start + size].float(), dim=1, eps=TINY)
            similarity = unit @ part.T
            own = _own(labels, offset + start, len(part), 0 if group else len(proxies))
            genuine[own[0]] = similarity[own]
            chunk_moments = Moments.of(similarity, own)
            impostor = chunk_moments if start == 0 else impostor.merge(chunk_moments)
        if group is not None:
            impostor = _merge_over(impostor, group)
            dist.all_reduce(genuine, group=group)
        ctx.save_for_backward(embeddings, proxies, labels, impostor.mean, impostor.count)
        ctx.size, ctx.offset, ctx.group = size, offset, group
        return genuine, impostor.mean.float(), impostor.variance.float()

    @staticmethod
    def backward(
        ctx: Any, d_genuine: Tensor, d_mean: Tensor, d_variance: Tensor
    ) -> tuple[Tensor, Tensor, None, None, None, None]:
        embeddings, proxies, labels, mean, count = ctx.saved_tensors
        length = embeddings.float().norm(dim=1, keepdim=True).clamp(min=TINY)
        unit = embeddings.float() / length
        pairs = count.clamp(min=1).float()
        slope, level = 2 * d_variance / pairs, d_mean / pairs
        d_unit = torch.zeros_like(unit)
        d_proxies = torch.empty_like(proxies)
        for start in range(0, len(proxies), ctx.size):
            part = proxies[start : start + ctx.size].float()
            norm = part.norm(dim=1, keepdim=True).clamp(min=TINY)
            part = part / norm
            weights = unit @ part.T
            own = _own(labels, ctx.offset + start, len(part), 0 if ctx.group else len(proxies))
            weights.sub_(mean).mul_(slope).add_(level)
            weights[own] = d_genuine[own[0]]
            d_unit.addmm_(weights, part)
            d_part = weights.T @ unit
            d_part -= part * (d_part * part).sum(1, keepdim=True)
            d_proxies[start : start + ctx.size] = d_part.div_(norm)
        if ctx.group is not None:
            dist.all_reduce(d_unit, group=ctx.group)
        d_unit -= unit * (d_unit * unit).sum(1, keepdim=True)
        return (d_unit / length).to(embeddings.dtype), d_proxies, None, None, None, None


def _own(labels: Tensor, start: int, size: int, whole: int) -> tuple[Tensor, Tensor]:
    """Rows of the samples whose own proxy is in the chunk, and its columns there.

    ``whole`` is the number of all proxies, or 0 if they are sharded. If one chunk holds them all,
    no search is needed.
    """
    if start == 0 and size == whole:
        return torch.arange(len(labels), device=labels.device), labels
    column = labels - start
    rows = torch.nonzero((column >= 0) & (column < size)).flatten()
    return rows, column[rows]


def _merge_over(own: Moments, group: Any) -> Moments:
    mine = torch.stack([own.count, own.mean, own.squares])
    parts = [torch.empty_like(mine) for _ in range(dist.get_world_size(group))]
    dist.all_gather(parts, mine, group=group)
    merged = Moments.empty()
    for part in parts:
        merged = merged.merge(Moments(*part))
    return merged
