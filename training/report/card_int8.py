"""The section of the model card on its int8 graph."""

from __future__ import annotations

from training.measure.int8 import Int8Figures
from training.report.markdown import table


def int8_section(figures: Int8Figures | None) -> list[str]:
    """A section on the int8 graph, if the bundle has one."""
    if figures is None:
        return []
    rows = [
        (
            pairing,
            f"{figures.d_prime[pairing]:.3f}",
            f"{each.fmr:.0e}",
            _more(each.misses),
            _more(each.misses_fixed),
            _more(each.false_matches_fixed),
        )
        for pairing, errors in figures.errors.items()
        for each in errors
    ]
    return [
        "## In int8",
        "CPUs with VNNI or AMX instructions run the network in 8-bit numbers, under the same model "
        "id and calibration: it errs as fp32 does, also where one photo is int8 and the other "
        f"fp32. Measured on {figures.people:,} people of LFW DevTrain, {figures.genuine_pairs:,} "
        f"same-person and {figures.impostor_pairs:,} stranger pairs; the graph was made on others. "
        f"d' in fp32: {figures.fp32_d_prime:.3f}. Errors relative to fp32:",
        table(
            (
                "photos",
                "d'",
                "FMR",
                "misses at this FMR",
                "misses at fp32's threshold",
                "false matches at fp32's threshold",
            ),
            rows,
        ),
    ]


def _more(ratio: float) -> str:
    return f"{ratio - 1:+.1%}"
