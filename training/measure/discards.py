"""Error-versus-discard characteristic (ISO/IEC 29794-1, NIST FATE quality).

It tests whether a quality score predicts misses: at a fixed threshold, discard the pairs with the
lowest quality (of the poorer photo) and measure the FNMR of the rest. The faster the FNMR falls,
the better the score.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

SHARES = (0.0, 0.05, 0.1, 0.2, 0.3)
"""Shares of same-person pairs to discard."""

DIRECTION = {
    "eye_distance": 1,
    "sharpness": 1,
    "highlights": 1,
    "midtones": -1,
    "turn": -1,
    "outside": -1,
    "confidence": 1,
}
"""Measures of :func:`model.faces.quality.measure`: 1 if high values are good, -1 if bad."""

SINGLE = tuple(DIRECTION)


def discard_curve(
    vectors: np.ndarray,
    labels: np.ndarray,
    quality: np.ndarray,
    *,
    sources: np.ndarray | None = None,
    target_fmr: float = 1e-3,
    shares: Sequence[float] = SHARES,
) -> list[float]:
    """FNMR after discarding each share of the same-person pairs.

    Args:
        vectors: float32 ``(N, D)`` unit vectors.
        labels: ``(N,)``, equal for photos of one person.
        quality: ``(N,)``, higher is better.
        sources: ``(N,)``, equal for copies of one photo, which form no pairs; None if there are
            no copies.
        target_fmr: False-match rate on these photos that sets the threshold.
        shares: Shares of the same-person pairs to discard.
    """
    strangers, genuine, poorer = _pairs(vectors, labels, quality, sources)
    threshold = np.quantile(strangers, 1 - target_fmr)
    missed = genuine[np.argsort(poorer, kind="stable")] < threshold
    return [float(missed[int(share * len(missed)) :].mean()) for share in shares]


def discard_table(
    vectors: np.ndarray,
    labels: np.ndarray,
    measured: Mapping[str, np.ndarray],
    names: Sequence[str],
    sources: np.ndarray | None = None,
) -> str:
    """FNMR in percent, one line per quality measure; signs are flipped where high is bad."""
    lines = [f"{'discarded':14}" + "".join(f"{share:8.0%}" for share in SHARES)]
    for name in names:
        quality = DIRECTION.get(name, 1) * np.asarray(measured[name])
        curve = discard_curve(vectors, labels, quality, sources=sources)
        lines.append(f"{name:14}" + "".join(f"{rate:8.2%}" for rate in curve))
    return "\n".join(lines)


def _pairs(
    vectors: np.ndarray, labels: np.ndarray, quality: np.ndarray, sources: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Stranger scores, same-person scores, and the lower quality of each same-person pair."""
    sources = np.arange(len(labels)) if sources is None else sources
    strangers, genuine, poorer = [], [], []
    for row in range(len(labels) - 1):
        scores = vectors[row + 1 :] @ vectors[row]
        own = labels[row + 1 :] == labels[row]
        strangers.append(scores[~own])
        own &= sources[row + 1 :] != sources[row]
        genuine.append(scores[own])
        poorer.append(np.minimum(quality[row + 1 :][own], quality[row]))
    return np.concatenate(strangers), np.concatenate(genuine), np.concatenate(poorer)
