"""Percentiles of the quality measures on LFW, beside which the limits of its reasons are set.

Photos: a fixed random draw from the people of ``peopleDevTrain.txt``, the main face of each.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from pathlib import Path

import numpy as np

from model.errors import NoFace
from model.faces.align import align
from model.faces.detect import Detector, choose
from model.faces.image import load_image
from model.faces.quality import CHECKS, assess
from tests.bench._lfw import lfw_photos

PERCENTILES = (0.1, 0.5, 1, 5, 25, 50, 75, 95, 99, 99.5, 99.9)


def main(argv: list[str]) -> int:
    """Print a percentile table, and how often each reason is given on the same photos."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench quality_limits")
    parser.add_argument("--photos", type=int, default=1500, help="how many photos (1500)")
    parser.add_argument("--lfw", type=Path, help="the folder with lfw_funneled/ and the lists")
    args = parser.parse_args(argv)

    paths = lfw_photos(args.lfw, people="peopleDevTrain.txt")
    paths = random.Random(0).sample(paths, min(args.photos, len(paths)))
    detector = Detector()
    qualities = []
    for path in paths:
        image = load_image(path)
        try:
            face = choose(detector.detect(image), "largest_central", image.shape)[0]
        except NoFace:
            continue
        qualities.append(assess(image, face, align(image, face.landmarks)))

    print(f"{len(qualities)} faces in {len(paths)} photos of LFW peopleDevTrain")
    print("percentile".ljust(14) + "".join(f"{p:>9}" for p in PERCENTILES))
    for name in qualities[0].measures:
        values = np.percentile([quality.measures[name] for quality in qualities], PERCENTILES)
        print(name.ljust(14) + "".join(f"{value:9.4f}" for value in values))
    given = Counter(reason.code for quality in qualities for reason in quality.reasons)
    print("\nshare of these faces given each reason")
    for check in CHECKS:
        print(f"{check.code:16}{given[check.code] / len(qualities):7.2%}")
    print(f"{'any':16}{np.mean([bool(quality.reasons) for quality in qualities]):7.2%}")
    print(f"median score {np.median([quality.score for quality in qualities]):.2f}")
    return 0
