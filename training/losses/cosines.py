"""Cosine similarities to all proxies, without a normalised copy of the proxies."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor

from training.losses.moments import CHUNK_ELEMENTS, TINY


def proxy_cosines(
    embeddings: Tensor, proxies: Tensor, *, chunk: int | None = None, group: Any = None
) -> Tensor:
    """Cosine of every embedding with every proxy, ``(B, C)`` float32.

    The direct formula stores unit proxies and their gradient, twice the memory of the proxies.
    This one processes the proxies in chunks in both the forward and the backward pass. Besides
    the result it stores one chunk.

    Args:
        embeddings: ``(B, D)``, of any nonzero length.
        proxies: ``(C, D)``, or this process's rows.
        chunk: Proxies per step; chosen from ``B`` and ``D`` if None.
        group: Process group the proxies are sharded over. Every process must pass the same
            embeddings, and gets their full gradient.
    """
    return _ProxyCosines.apply(embeddings, proxies, chunk, group)


class _ProxyCosines(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, embeddings: Tensor, proxies: Tensor, chunk: int | None, group: Any
    ) -> Tensor:
        unit = F.normalize(embeddings.float(), dim=1, eps=TINY)
        size = chunk or max(1, CHUNK_ELEMENTS // sum(unit.shape))
        result = unit.new_empty(len(unit), len(proxies))
        for start in range(0, len(proxies), size):
            part = F.normalize(proxies[start : start + size].float(), dim=1, eps=TINY)
            result[:, start : start + size] = unit @ part.T
        ctx.save_for_backward(embeddings, proxies)
        ctx.size, ctx.group = size, group
        return result

    @staticmethod
    def backward(ctx: Any, d_cosines: Tensor) -> tuple[Tensor, Tensor, None, None]:
        embeddings, proxies = ctx.saved_tensors
        length = embeddings.float().norm(dim=1, keepdim=True).clamp(min=TINY)
        unit = embeddings.float() / length
        d_unit = torch.zeros_like(unit)
        d_proxies = torch.empty_like(proxies)
        for start in range(0, len(proxies), ctx.size):
            part = proxies[start : start + ctx.size].float()
            norm = part.norm(dim=1, keepdim=True).clamp(min=TINY)
            part = part / norm
            weights = d_cosines[:, start : start + ctx.size]
            d_unit.addmm_(weights, part)
            d_part = weights.T @ unit
            d_part -= part * (d_part * part).sum(1, keepdim=True)
            d_proxies[start : start + ctx.size] = d_part.div_(norm)
        if ctx.group is not None:
            dist.all_reduce(d_unit, group=ctx.group)
        d_unit -= unit * (d_unit * unit).sum(1, keepdim=True)
        return (d_unit / length).to(embeddings.dtype), d_proxies, None, None
