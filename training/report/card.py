"""The model card: what a bundle is, its measured error rates, and where it errs more."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from model.bundle import Bundle
from model.calibration import Calibration
from model.calibration.check import PromiseCheck
from training.measure.int8 import Int8Figures
from training.measure.subgroup_errors import ADULT, GROUP_PHOTOS, SliceRates, Strangers
from training.report.card_int8 import int8_section
from training.report.card_photos import collections_section, kinds_section
from training.report.markdown import counted, percent, rate_in_words, table

_UNSEEN = {"d_prime": "d'", "eer": "EER", "R@1": "rank-1 retrieval"}
_GALLERIES = (100, 1_000, 10_000, 100_000)
_SEARCH_TARGET = 0.01
_ANSWER_TARGETS = (1e-2, 1e-3, 1e-4)


@dataclass(frozen=True)
class Figures:
    """All measurements on people the model never saw.

    Attributes:
        unseen: :func:`training.measure.metrics.evaluate` on all pairs of LFW DevTest.
        view2_accuracy: Mean over the ten folds of LFW View 2.
        view2_standard_error: Standard error of that mean over the folds.
        view2_lost: Pairs in which a face was not found; they count as different.
        promises: The calibration's thresholds checked on the DevTest people.
        weakness_target: Target FMR whose threshold is used for ``weaknesses``.
        weaknesses: Rates on the DevTest people, sliced by photo quality measures.
        groups: False matches between strangers within and across UTKFace groups, or None.
        folders: The same for photos with one folder per group, or None.
        collections: The calibration's thresholds checked on held-out people of other collections.
        int8: The int8 graph against fp32; None for a bundle without one.
    """

    unseen: Mapping[str, Any]
    view2_accuracy: float
    view2_standard_error: float
    view2_lost: int
    promises: tuple[PromiseCheck, ...]
    weakness_target: float
    weaknesses: Mapping[str, tuple[SliceRates, ...]]
    groups: Strangers | None
    folders: Strangers | None = None
    collections: Mapping[str, tuple[PromiseCheck, ...]] = field(default_factory=dict)
    int8: Int8Figures | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_card(
    bundle: Bundle, calibration: Calibration, figures: Figures, facts: Mapping[str, Any]
) -> str:
    """The card in Markdown; every number in it comes from ``figures`` or ``calibration``."""
    size = bundle.preprocessing.input_size
    mirror = ", averaged with its mirror image" if bundle.preprocessing.flip else ""
    parts = [
        f"# {bundle.name}",
        f"{facts['summary']}\n\nInput {size}x{size} pixels, aligned by five landmarks{mirror}; "
        f"output a unit vector of {bundle.dim}. Model `{bundle.model_id[:12]}`, calibration "
        f"`{calibration.id}`.",
        f"## Terms\n\n{facts['terms']}",
        "## People never seen",
        *([facts["caveat"]] if "caveat" in facts else []),
        _unseen(figures),
        "![Scores of same-person and stranger pairs](distributions.png)",
        "## Promised and observed",
        f"Thresholds were calibrated on: {calibration.protocol}. Here they are held against the "
        "DevTest people, names as published, photos drawn likewise: "
        f"{figures.promises[0].observed_fnmr.trials:,} same-person and "
        f"{figures.promises[0].observed_fmr.trials:,} stranger pairs. A promise is *broken* "
        "when the observed interval lies wholly above it and the target, *better* when wholly "
        "below, *exceeded* when wholly above the target but not above the promise, else *kept*, "
        "which is to say not contradicted.",
        table(
            ("target FMR", "threshold", "promised FMR", "observed FMR", "observed FNMR", ""),
            [
                (
                    f"{check.target_fmr:.0e}",
                    f"{check.threshold:.3f}",
                    rate_in_words(check.promised_fmr) if check.supported else "not supported",
                    rate_in_words(check.observed_fmr),
                    percent(check.observed_fnmr),
                    check.fmr if check.supported else "no promise",
                )
                for check in figures.promises
            ],
        ),
        *collections_section(figures.collections),
        *int8_section(figures.int8),
        "## What answers to expect",
        _answers(calibration),
        *kinds_section(calibration),
        "## Searching a gallery",
        "Someone unknown meets everybody in it, so the threshold rises with its size; here for at "
        f"most {_SEARCH_TARGET:.0%} of strangers taken for anyone, with one photo of each person "
        "(several find more). Computed from the pair rates of the calibration's held-out half, "
        "taking comparisons for independent; whoever is outranked is not counted as missed.",
        _searches(calibration),
        "## Where it errs more",
        f"The same DevTest pairs, at the one global threshold for a target FMR of "
        f"{figures.weakness_target:.0e}. A pair belongs to the row of its worse photo.",
        *[_slices(name, rows) for name, rows in figures.weaknesses.items()],
        *_utkface(figures.groups),
        *_folders(figures.folders, facts),
        "## How it was made",
        *[f"- **{key}**: {value}" for key, value in facts["making"].items()],
    ]
    return "\n\n".join(parts) + "\n"


def _unseen(figures: Figures) -> str:
    unseen = figures.unseen
    accuracy = f"{figures.view2_accuracy:.2%} ± {figures.view2_standard_error:.2%}"
    rows = [("View 2, accuracy", accuracy)]
    misses = {
        key: key.replace("fnmr@", "FNMR at FMR ") for key in unseen["metrics"] if "fnmr@" in key
    }
    for key, name in (_UNSEEN | misses).items():
        entry = unseen["metrics"][key]
        text = "not supported by this sample"
        if entry is not None:
            style = ".2f" if key == "d_prime" else ".2%"
            value, low, high = (format(entry[end], style) for end in ("value", "low", "high"))
            text = f"{value} [{low}, {high}]"
        rows.append((f"DevTest, {name}", text))
    return (
        f"LFW View 2: 6,000 pairs in ten folds, mean and standard error over the folds; in "
        f"{figures.view2_lost} a face was not found, which counts as different. LFW DevTest: all "
        f"pairs of {unseen['n']:,} photos of {unseen['classes']:,} people, "
        f"{unseen['genuine_pairs']:,} same-person and {unseen['impostor_pairs']:,} stranger pairs; "
        "95% intervals by drawing people, in retrieval only those who are looked for: the gallery "
        "stays as it is. Thresholds for EER and FNMR are read off these very pairs; how the "
        "calibration's own fare stands in the next table.\n\n" + table(("", "value"), rows)
    )


def _answers(calibration: Calibration) -> str:
    rows = []
    for target in _ANSWER_TARGETS:
        same = calibration.decide(calibration.threshold(target).threshold, target)
        different = calibration.decide(same.reject_below, target)
        rows += [
            (
                f"{target:.0e}", "one person", f"{1 - same.fnmr.value:.1%}",
                f"{same.fnmr.value - different.fnmr.value:.1%}", percent(different.fnmr),
            ),
            (
                f"{target:.0e}", "strangers", rate_in_words(same.fmr),
                f"{different.fmr.value - same.fmr.value:.1%}", f"{1 - different.fmr.value:.1%}",
            ),
        ]  # fmt: skip
    return (
        f"All pairs of the calibration ({calibration.genuine_pairs:,} of one person, "
        f"{calibration.impostor_pairs:,} of strangers; both halves, so also the pairs the "
        "thresholds were chosen on), photos of any quality; the wrong answers with their 95% "
        f"intervals.{_worst(calibration)}\n\n"
        + table(("target FMR", "pairs of", "*same*", "*inconclusive*", "*different*"), rows)
    )


def _worst(calibration: Calibration) -> str:
    names = " or ".join(each.name for each in calibration.parts.further)
    return f" Strangers are those of {names} where they are more alike." if names else ""


def _searches(calibration: Calibration) -> str:
    found = [calibration.search_threshold(size, _SEARCH_TARGET) for size in _GALLERIES]
    return table(
        ("people", "threshold", "", "strangers taken for anyone", "people missed, one photo each"),
        [
            (
                f"{each.gallery_size:,}",
                f"{each.threshold:.3f}",
                "supported" if each.supported else "extrapolated, not supported",
                percent(each.fpir),
                percent(each.fnmr),
            )
            for each in found
        ],
    )


def _slices(name: str, rows: Iterable[SliceRates]) -> str:
    return table(
        (name, "FMR", "stranger pairs", "FNMR", "same-person pairs"),
        [
            (
                row.name,
                *counted(row.fmr, rate_in_words),
                *counted(row.fnmr, percent),
            )
            for row in rows
        ],
    )


def _utkface(strangers: Strangers | None) -> list[str]:
    if strangers is None:
        return []
    intro = (
        "False matches between strangers of UTKFace at the same threshold, inside a group and "
        "across two. UTKFace names no people: where one person was collected twice, that counts "
        "as a false match here. Its pictures are cut close: the quality check calls "
        f"{strangers.cut_off:.0%} of them cut off, and what lies beyond the edge is black in "
        "the crop, which may make strangers more alike. So compare these rates with each other, "
        "not with those above. The labels are estimates. All are faces left out of training, at "
        f"most {GROUP_PHOTOS} a group; by race and gender only people of {ADULT} and older."
    )
    return [intro, *_strangers(strangers)]


def _folders(strangers: Strangers | None, facts: Mapping[str, Any]) -> list[str]:
    if strangers is None:
        return []
    intro = (
        f"The same for other strangers, at most {GROUP_PHOTOS} photos a group, of which the "
        f"quality check calls {strangers.cut_off:.0%} cut off. {facts['groups']}"
    )
    return [intro, *_strangers(strangers)]


def _strangers(strangers: Strangers) -> list[str]:
    return [
        table(
            (f"by {name}", "FMR", "pairs"),
            [(row.name, *counted(row.fmr, rate_in_words)) for row in rows],
        )
        for name, rows in strangers.rates.items()
    ]
