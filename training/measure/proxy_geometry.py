"""Geometry of embeddings relative to the proxies they were trained with."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def proxy_geometry(embeddings: Tensor, labels: Tensor, proxies: Tensor) -> dict[str, float]:
    """Similarities to the proxies, and the share of the embeddings in the proxies' span.

    Args:
        embeddings: Unit vectors ``(N, D)``.
        labels: int64 ``(N,)`` in ``0..C-1``.
        proxies: ``(C, D)``, of any length.

    Returns:
        ``own_proxy`` and ``other_proxies`` (mean cosines), ``proxy_d_prime`` (their decidability
        index) and ``in_span`` (mean share of the squared length in the span of the proxies, 0..1).
    """
    unit = F.normalize(proxies.detach(), dim=1)
    cosine = embeddings @ unit.T
    own = F.one_hot(labels, len(unit)).bool()
    genuine, impostor = cosine[own], cosine[~own]
    spread = ((genuine.var(correction=0) + impostor.var(correction=0)) / 2).sqrt()
    basis = torch.linalg.svd(unit, full_matrices=False).Vh
    return {
        "own_proxy": genuine.mean().item(),
        "other_proxies": impostor.mean().item(),
        "proxy_d_prime": ((genuine.mean() - impostor.mean()) / spread).item(),
        "in_span": (embeddings @ basis.T).square().sum(1).mean().item(),
    }
