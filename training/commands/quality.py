"""``python -m training quality``: learn how quality measures of a photo predict misses.

The costs are fitted on photos of LFW's DevTrain people, original and degraded. They are first
fitted on one half of the people and tested on the other, then fitted on all. Collections given with
``--also`` are used for fitting only.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

from model.arguments import natural
from model.atomic import made_whole
from model.bundle import DEFAULT, Bundle
from model.embedding.embedder import Embedder
from training.datasets import lfw
from training.datasets import load as load_dataset
from training.datasets.corrections import corrected
from training.inputs.crops import Crops, crop_photos
from training.inputs.photo_kinds import KINDS
from training.learn.inference import embed_crops
from training.measure.discards import SINGLE, discard_table
from training.measure.quality_costs import JudgedPhotos, cost, fit_costs

MOST_PHOTOS = 3
"""Most photos of one person."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.description = __doc__
    parser.add_argument("--bundle", type=Path, default=DEFAULT, help="the model (what ships)")
    parser.add_argument("--lfw", type=Path, required=True, help="folder that holds lfw_home")
    parser.add_argument(
        "--also", type=Path, nargs="*", default=[], metavar="FOLDER",
        help="folders of people the model was not trained on, a folder a person",
    )  # fmt: skip
    parser.add_argument("--photos", type=natural, default=1200, help="of LFW (%(default)s)")
    parser.add_argument("--out", type=Path, required=True, help="where quality_costs.json goes")
    parser.add_argument("--cache", type=Path, default=Path("runs/cache"))
    parser.add_argument("--seed", type=natural, default=0)


def run(args: argparse.Namespace) -> int:
    bundle = Bundle.load(args.bundle)
    embedder = Embedder(bundle, engine="fp32")
    spoiled, kinds = _lfw(args, embedder)
    others = [_folder(folder, embedder, args.cache) for folder in args.also]
    people = np.random.default_rng(args.seed).permutation(np.unique(spoiled.labels))
    learning = np.isin(spoiled.labels, people[: len(people) // 2])
    found = fit_costs(spoiled.subset(np.flatnonzero(learning)), *others)
    tables = {
        "all kinds": ~learning,
        "whole and cut close": ~learning & np.isin(kinds, ("whole", "close")),
        "whole": ~learning & (kinds == "whole"),
    }
    for title, rows in tables.items():
        photos = spoiled.subset(np.flatnonzero(rows))
        measured = {**photos.measures, "score": -cost(found, photos.measures)}
        print(f"\n{title}: {rows.sum():,} photos of people not fitted on; misses at FMR 1e-3")
        columns = photos.vectors, photos.labels, measured, ("score", *SINGLE), photos.sources
        print(discard_table(*columns))
    found = fit_costs(spoiled, *others)
    result = {
        "costs": found,
        "learnt_on": {
            "model_id": bundle.model_id,
            "lfw_devtrain_people": len(people),
            "lfw_photos_of_all_kinds": len(spoiled.labels),
            "others": {
                folder.name: len(photos.labels)
                for folder, photos in zip(args.also, others, strict=True)
            },
        },
    }
    with made_whole(args.out) as partial:
        partial.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    print(f"written to {args.out}")
    return 0


def _lfw(args: argparse.Namespace, embedder: Embedder) -> tuple[JudgedPhotos, np.ndarray]:
    table = lfw.load(args.lfw)
    right = corrected(table, lfw.CORRECTIONS)
    rows = lfw.dev_rows(args.lfw, table, "DevTrain")
    rows = draw(right.labels, rows[right.kept[rows]], args.photos, args.seed)
    paths = [table.paths[row] for row in rows for _ in KINDS]
    kinds = np.tile(KINDS, len(rows))
    crops = crop_photos(paths, kinds=kinds.tolist(), cache=args.cache)
    sources = np.repeat(rows, len(KINDS))
    photos = _judged(crops, right.labels[sources], sources, embedder)
    return photos, kinds[crops.found]


def _folder(folder: Path, embedder: Embedder, cache: Path) -> JudgedPhotos:
    table = load_dataset("folder", folder)
    crops = crop_photos(table.paths, cache=cache)
    return _judged(crops, table.labels, np.arange(len(table)), embedder)


def _judged(
    crops: Crops, labels: np.ndarray, sources: np.ndarray, embedder: Embedder
) -> JudgedPhotos:
    rows = np.flatnonzero(crops.found)
    measures = {name: values[rows] for name, values in crops.measures.items()}
    vectors = embed_crops(embedder, crops.pixels, rows)
    return JudgedPhotos(vectors, labels[rows], sources[rows], measures)


def draw(labels: np.ndarray, rows: np.ndarray, photos: int, seed: int) -> np.ndarray:
    """Draw about ``photos`` rows: two or three each of random people with at least two."""
    rng = np.random.default_rng(seed)
    people, counts = np.unique(labels[rows], return_counts=True)
    drawn: list[int] = []
    for person in rng.permutation(people[counts > 1]):
        if len(drawn) >= photos:
            break
        own = rng.permutation(rows[labels[rows] == person])
        drawn.extend(own[:MOST_PHOTOS].tolist())
    return np.array(sorted(drawn))
