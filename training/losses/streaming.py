"""Cosines of samples to proxies in chunks of proxies, so that the whole matrix is never stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

CHUNK_ELEMENTS = 1 << 22
"""Upper bound of ``chunk x (B + D)``, the floats stored per chunk: 16 MB in float32."""

TINY = 1e-12


class Chunk(NamedTuple):
    """Some rows of the proxies.

    Attributes:
        rows: The rows.
        unit: The proxies at length 1, ``(c, D)``.
        norm: Their lengths, ``(c, 1)``.
        cosines: ``(B, c)``; may be overwritten.
        own: Rows and columns of ``cosines`` that belong to a sample's own proxy.
    """

    rows: slice
    unit: Tensor
    norm: Tensor
    cosines: Tensor
    own: tuple[Tensor, Tensor]


@dataclass(frozen=True, eq=False)
class ProxyScores:
    """How to go through the cosines of one batch to all proxies, forward and then backward.

    Attributes:
        labels: int64 ``(B,)``, the row of each sample's own proxy over all processes; the caller
            checks that it exists.
        chunk: Proxies per step; chosen from ``B`` and ``D`` if None.
        offset: Index of this process's first proxy, if they are sharded.
        group: Process group the proxies are sharded over. Every process must pass the same
            embeddings and labels, and gets the full gradient of the embeddings.
    """

    labels: Tensor
    chunk: int | None = None
    offset: int = 0
    group: Any = None
    _only: list[Chunk] = field(default_factory=list, init=False)

    def chunks(self, unit: Tensor, proxies: Tensor) -> Iterator[Chunk]:
        """Cosines to this process's proxies; ``unit`` are the embeddings at length 1."""
        size = self.chunk or max(1, CHUNK_ELEMENTS // sum(unit.shape))
        for start in range(0, len(proxies), size):
            rows = slice(start, start + size)
            part, norm = at_length_one(proxies[rows])
            cosines = unit @ part.T
            chunk = Chunk(rows, part, norm, cosines, self._own(start, len(part), len(proxies)))
            if len(part) == len(proxies):
                # A second pass over few proxies would cost more time than it saves memory.
                self._only[:] = [chunk._replace(cosines=cosines.clone())]
            yield chunk

    def gradients(
        self, embeddings: Tensor, proxies: Tensor, derivative: Callable[[Chunk], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """Gradients of embeddings and proxies, from the derivative by the cosines ``(B, c)``."""
        unit, length = at_length_one(embeddings)
        d_unit, d_proxies = torch.zeros_like(unit), torch.empty_like(proxies)
        for chunk in [self._only.pop()] if self._only else self.chunks(unit, proxies):
            weights = derivative(chunk)
            d_unit.addmm_(weights, chunk.unit)
            d_part = weights.T @ unit
            d_part -= chunk.unit * (d_part * chunk.unit).sum(1, keepdim=True)
            d_proxies[chunk.rows] = d_part.div_(chunk.norm)
        if self.group is not None:
            dist.all_reduce(d_unit, group=self.group)
        d_unit -= unit * (d_unit * unit).sum(1, keepdim=True)
        return (d_unit / length).to(embeddings.dtype), d_proxies

    def _own(self, start: int, size: int, proxies: int) -> tuple[Tensor, Tensor]:
        """Rows of the samples whose own proxy is in the chunk, and its columns there."""
        if self.group is None and size == proxies:
            # One chunk holds all proxies, so no search is needed.
            return torch.arange(len(self.labels), device=self.labels.device), self.labels
        column = self.labels - self.offset - start
        rows = torch.nonzero((column >= 0) & (column < size)).flatten()
        return rows, column[rows]


def at_length_one(vectors: Tensor) -> tuple[Tensor, Tensor]:
    """Rows at length 1 in float32, and their lengths ``(N, 1)``."""
    values = vectors.float()
    norm = values.norm(dim=1, keepdim=True).clamp(min=TINY)
    return values / norm, norm
