"""``python -m training publish``: calibrate and measure a bundle, write its card and install it.

LFW serves as people never seen: DevTrain is used to calibrate, DevTest and the 6,000 pairs of View
2 to report. The weights are rounded first, so that everything is measured on the rounded weights.
The bundle is built in a temporary folder, read back and checked, and only then replaces ``--out``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from model.bundle import Bundle, save_network
from model.bundle.files import fresh_folder
from model.calibration import Calibration
from model.calibration.calibration import MAX_PHOTOS
from model.calibration.check import PromiseCheck, check_promises
from model.calibration.kinds import Copies
from model.calibration.pairs.further import Further
from model.calibration.pairs.people import draw_photos
from model.embedding.embedder import Embedder
from model.errors import BundleError
from model.faces.image import SUFFIXES
from training.datasets import Table, lfw
from training.datasets.corrections import corrected
from training.datasets.table import by_folder
from training.errors import UsageError
from training.inputs.crops import Crops, crop_photos
from training.learn.inference import embed_crops
from training.measure import metrics
from training.measure.calibration_photos import judged_scores, spoiled_copies
from training.measure.collections import (
    check_collection,
    further_in_words,
    held_out_people,
)
from training.measure.int8 import add_int8
from training.measure.subgroup_errors import by_measure, strangers_by_folder, strangers_by_group
from training.report import plots
from training.report.card import Figures, write_card
from training.report.html_page import png

MANTISSA_BITS = 7
WEAKNESS_TARGET = 1e-3
MEASURES = (
    ("turn of the head, degrees", "turn", (0, 15, 30, 90), True),
    ("pixels between the eyes", "eye_distance", (0, 35, 45, 250), False),
    ("sharpness", "sharpness", (0, 0.15, 0.3, 10), False),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--bundle", type=Path, required=True, help="what fit or distill wrote")
    parser.add_argument("--lfw", type=Path, required=True, help="folder that holds lfw_home")
    parser.add_argument("--utkface", type=Path, help="folder of UTKFace, for rates by group")
    parser.add_argument(
        "--spared", type=float, help="share of UTKFace left out of training; 1 for all of it"
    )
    parser.add_argument(
        "--groups", type=Path,
        help="photos of strangers, none trained on, one folder a group: for rates by group",
    )  # fmt: skip
    parser.add_argument(
        "--facts",
        type=Path,
        required=True,
        help="JSON for the card: summary, terms, making; caveat and groups where there are any",
    )
    parser.add_argument(
        "--collections", type=Path, nargs="*", default=[], metavar="FOLDER",
        help="more people, a folder each or a folder a family: the held-out ones are measured",
    )  # fmt: skip
    parser.add_argument(
        "--further", type=Path, nargs="*", default=[], metavar="FOLDER",
        help="such collections on which thresholds must hold too: one half of the held-out people "
        "is used to choose them, the other is measured",
    )  # fmt: skip
    parser.add_argument("--name", required=True, help="what people call the model")
    parser.add_argument("--flip", action="store_true", help="average with the mirror image")
    parser.add_argument(
        "--int8", action=argparse.BooleanOptionalAction, default=True,
        help="add an int8 graph for CPUs, if it errs as rarely as fp32 with one calibration",
    )  # fmt: skip
    parser.add_argument("--out", type=Path, required=True, help="where the bundle goes")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))


def run(args: argparse.Namespace) -> int:
    if args.utkface and args.spared is None:
        raise UsageError("--utkface needs --spared: groups are measured on faces left out.")
    if args.spared is not None and not 0 < args.spared <= 1:
        raise UsageError(f"--spared {args.spared:g} is no share; give one above 0 and up to 1.")
    if args.groups and not (args.groups.is_dir() and by_folder(args.groups, SUFFIXES)[0]):
        raise UsageError(f"--groups {args.groups} holds no folders with photos, one a group.")
    if not args.facts.is_file():
        raise UsageError(f"There is no file {args.facts} for --facts.")
    try:
        facts = json.loads(args.facts.read_text(encoding="utf-8"))
    except ValueError as error:
        raise UsageError(f"{args.facts} is not JSON: {error}.") from error
    if not isinstance(facts, dict):
        raise UsageError(f"{args.facts} holds no JSON object.")
    needed = {"summary", "terms", "making"} | ({"groups"} if args.groups else set())
    if missing := needed - facts.keys():
        raise BundleError(f"{args.facts} lacks {', '.join(sorted(missing))}.")
    source = Bundle.load(args.bundle)
    with fresh_folder(args.out) as draft:
        bundle = save_network(
            draft, source.network(), replace(source.preprocessing, flip=args.flip),
            name=args.name, card="", provenance=facts, mantissa_bits=MANTISSA_BITS,
        )  # fmt: skip
        embedder = Embedder(bundle, engine="fp32")
        table = lfw.load(args.lfw)
        crops = crop_photos(table.paths, cache=args.cache)
        vectors = embed_crops(embedder, crops.pixels, title="embedding LFW")
        copies = partial(spoiled_copies, embedder=embedder, cache=args.cache)
        further = [held_out_people(folder, embedder, cache=args.cache) for folder in args.further]
        calibration = calibrate(args.lfw, table, crops, vectors, bundle.model_id, copies, further)
        int8 = None
        if args.int8:
            train = _rows(args.lfw, table, crops, "DevTrain")
            bundle, int8 = add_int8(bundle, crops.pixels, vectors, table.labels, train)
        rows = _rows(args.lfw, table, crops, "DevTest")
        figures = replace(
            _measure(args, table, rows, crops, vectors, calibration, embedder),
            collections=_collections(args, calibration, embedder, further),
            int8=int8,
        )  # fmt: skip
        sample = metrics.pair_scores(vectors[rows], table.labels[rows])
        bundle = bundle.with_calibration(calibration).with_card(
            write_card(bundle, calibration, figures, facts),
            metrics=figures.to_dict(),
            pictures={"distributions.png": png(plots.score_histograms({"LFW DevTest": sample}))},
        )
        _compare(bundle, crops, vectors)
    bundle = Bundle.load(args.out)
    print(f"{bundle.card}\npublished {args.out}, model {bundle.model_id[:12]}")
    return 0


def _rows(root: Path, table: Table, crops: Crops, part: str) -> np.ndarray:
    rows = lfw.dev_rows(root, table, part)
    return rows[crops.found[rows]]


def calibrate(
    root: Path,
    table: Table,
    crops: Crops,
    vectors: np.ndarray,
    model_id: str,
    copies: Callable[[list[Path], np.ndarray], Copies] | None = None,
    further: Sequence[Further] = (),
) -> Calibration:
    """Calibrate on the DevTrain people with corrected labels, and on degraded copies.

    Args:
        root: Folder that contains ``lfw_home``.
        table: All of LFW.
        crops, vectors: Crops and vectors of all of LFW.
        model_id: The model that computed the vectors.
        copies: Function from photos and labels to degraded copies; None for no copies.
        further: Further collections on which the thresholds must hold too.
    """
    right = corrected(table, lfw.CORRECTIONS)
    found = _rows(root, table, crops, "DevTrain")
    rows = found[right.kept[found]]
    paths = [table.paths[row] for row in rows]
    return Calibration.fit(
        vectors[rows],
        right.labels[rows],
        model_id=model_id,
        quality=judged_scores(crops, rows),
        copies=copies(paths, right.labels[rows]) if copies else None,
        protocol=f"LFW peopleDevTrain, {len(rows):,} photos ({right.in_words(found)}); "
        "thresholds chosen on one half of the people, rates measured on the other"
        + further_in_words(further),
        data_fingerprint=crops.fingerprint,
        further=further,
    )


def _collections(
    args: argparse.Namespace,
    calibration: Calibration,
    embedder: Embedder,
    further: Sequence[Further],
) -> dict[str, tuple[PromiseCheck, ...]]:
    whole = (held_out_people(folder, embedder, cache=args.cache) for folder in args.collections)
    return {
        **{each.name: check_collection(calibration, each, half=True) for each in further},
        **{each.name: check_collection(calibration, each) for each in whole},
    }


def _measure(
    args: argparse.Namespace,
    table: Table,
    rows: np.ndarray,
    crops: Crops,
    vectors: np.ndarray,
    calibration: Calibration,
    embedder: Embedder,
) -> Figures:
    unseen, labels = vectors[rows], table.labels[rows]
    pairs = lfw.view2(args.lfw, table)
    scores = (vectors[pairs.first] * vectors[pairs.second]).sum(1)
    lost = ~(crops.found[pairs.first] & crops.found[pairs.second])
    accuracy, error = metrics.ten_fold(np.where(lost, -1.0, scores), pairs.same, pairs.fold)
    threshold = calibration.threshold(WEAKNESS_TARGET).threshold
    drawn, meeting = draw_photos(labels, MAX_PHOTOS, seed=0)
    return Figures(
        unseen=metrics.evaluate(unseen, labels),
        view2_accuracy=accuracy,
        view2_standard_error=error,
        view2_lost=int(lost.sum()),
        promises=check_promises(calibration, unseen, labels),
        weakness_target=WEAKNESS_TARGET,
        weaknesses={
            name: by_measure(
                unseen[drawn],
                labels[drawn],
                crops.measures[measure][rows[drawn]],
                edges,
                threshold,
                meeting=meeting,
                high_is_bad=bad,
            )
            for name, measure, edges, bad in MEASURES
        },
        groups=strangers_by_group(
            args.utkface, embedder, threshold, spared=args.spared, cache=args.cache
        )
        if args.utkface
        else None,
        folders=strangers_by_folder(args.groups, embedder, threshold, cache=args.cache)
        if args.groups
        else None,
    )


def _compare(bundle: Bundle, crops: Crops, vectors: np.ndarray) -> None:
    """Check that the bundle, read back from disk, gives the vectors that were measured."""
    rows = np.flatnonzero(crops.found)[:8]
    again = Embedder(Bundle.load(bundle.path), engine="fp32")
    if (again.embed(crops.pixels[rows]) * vectors[rows]).sum(1).min() < 0.9999:
        raise BundleError(f"{bundle.path} gives other vectors than were measured; not published.")
