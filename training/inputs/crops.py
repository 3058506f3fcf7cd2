"""Photos to aligned crops, cached as a memory map.

Detection and alignment are those of the product, so that training and serving see the same input.
The cache is keyed by the contents of the photos: moved files are found again, changed ones are
processed anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.lib.format import open_memmap
from tqdm import tqdm

from model.atomic import made_whole
from model.errors import BadImage, NoFace
from model.faces.align import align
from model.faces.detect import Detector, choose
from model.faces.image import load_image
from model.faces.quality import measure
from model.types import CROP_SIZE
from model.workers import processors
from training.inputs.photo_kinds import KINDS_VERSION, WHOLE, spoiled
from training.inputs.worker_map import worker_map

VERSION = 3
"""Increase when detection or alignment change the crops."""

ENOUGH, ENOUGH_ALIGNED = 64, 4096
"""Photos per extra worker process: to align, and to decode only."""

Photo = tuple[Path, str]
"""A file, and the kind of photo to turn it into (:mod:`training.inputs.photo_kinds`)."""


@dataclass(frozen=True, eq=False)
class Crops:
    """Aligned faces of many photos, in the order of the photos.

    Attributes:
        pixels: uint8 ``(N, 112, 112, 3)``, a read-only memory map; black if no face was found.
        found: bool ``(N,)``, False if the photo could not be read or has no face.
        measures: Quality measures (:func:`model.faces.quality.measure`), float32 ``(N,)`` by
            name; NaN if no face was found. Empty for photos that were already aligned.
        fingerprint: Hash of the photos' contents.
    """

    pixels: np.memmap
    found: np.ndarray
    measures: dict[str, np.ndarray]
    fingerprint: str


def crop_photos(
    paths: Sequence[Path],
    *,
    aligned: bool = False,
    kinds: Sequence[str] | None = None,
    cache: Path,
) -> Crops:
    """Detect, align and measure the main face of each photo, or read the cached result.

    If a photo has several faces, the largest and most central one is used: labelled photo
    collections name the person in the middle.

    Args:
        aligned: The photos are already aligned 112x112 crops; only decode them.
        kinds: The kind (:mod:`training.inputs.photo_kinds`) to turn each photo into first; None
            leaves all unchanged.
    """
    kinds = [WHOLE] * len(paths) if kinds is None else list(kinds)
    fingerprint = _fingerprint(paths, aligned, kinds)
    pixels = cache / f"crops-{fingerprint}.npy"
    facts = pixels.with_suffix(".npz")
    if not pixels.exists():
        _build([*zip(paths, kinds, strict=True)], aligned, pixels, facts)
    with np.load(facts) as stored:
        measures = {name: stored[name] for name in stored.files}
    return Crops(np.load(pixels, mmap_mode="r"), measures.pop("found"), measures, fingerprint)


def aligned_crops(
    paths: Sequence[Path], *, aligned: bool = False, cache: Path
) -> tuple[np.memmap, np.ndarray]:
    """Only ``(pixels, found)`` of :func:`crop_photos`."""
    crops = crop_photos(paths, aligned=aligned, cache=cache)
    return crops.pixels, crops.found


def why_lost(aligned: bool) -> str:
    """Why photos gave no crop; completes a message such as "3 of 10 photos ..."."""
    size = f"{CROP_SIZE}x{CROP_SIZE}"
    return f"are no aligned crops of {size} pixels" if aligned else "hold no usable face"


def _build(photos: Sequence[Photo], aligned: bool, pixels: Path, facts: Path) -> None:
    with made_whole(pixels) as partial_pixels:
        crops = open_memmap(partial_pixels, "w+", np.uint8, (len(photos), CROP_SIZE, CROP_SIZE, 3))
        found, measures = _fill(crops, photos, aligned)
        crops.flush()
        with made_whole(facts) as partial_facts:
            np.savez(partial_facts, found=found, **measures)


def _fill(
    crops: np.ndarray, photos: Sequence[Photo], aligned: bool
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Fill ``crops`` in place; return ``found`` and ``measures`` of :class:`Crops`."""
    found = np.zeros(len(photos), bool)
    measures: dict[str, np.ndarray] = {}
    worth = len(photos) // (ENOUGH_ALIGNED if aligned else ENOUGH) + 1
    with worker_map(partial(_Reader, aligned), min(processors(), worth)) as mapped:
        bar = tqdm(mapped(photos), "aligning", len(photos), unit="photo")
        for row, result in enumerate(bar):
            if result is None:
                continue
            crops[row], measured = result
            found[row] = True
            for name, value in measured.items():
                column = measures.setdefault(name, np.full(len(photos), np.nan, np.float32))
                column[row] = value
    return found, measures


class _Reader:
    """Detects, aligns and measures the main face of a photo, or only decodes aligned crops."""

    def __init__(self, aligned: bool) -> None:
        self.detector = None if aligned else Detector()

    def __call__(self, photo: Photo) -> tuple[np.ndarray, dict[str, float]] | None:
        path, kind = photo
        try:
            image = load_image(path)
            if self.detector is None:
                return (image, {}) if image.shape == (CROP_SIZE, CROP_SIZE, 3) else None
            (face,) = choose(self.detector.detect(image), "largest_central", image.shape)
            if kind != WHOLE:
                image = spoiled(image, face, kind, path.name)
                (face,) = choose(self.detector.detect(image), "largest_central", image.shape)
        except (BadImage, NoFace):
            return None
        crop = align(image, face.landmarks)
        return crop, measure(image, face, crop)


def _fingerprint(paths: Sequence[Path], aligned: bool, kinds: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{VERSION} {aligned} {len(paths)}".encode())
    if set(kinds) - {WHOLE}:
        digest.update(f" {KINDS_VERSION} {kinds}".encode())
    for path in paths:
        digest.update(hashlib.sha256(Path(path).read_bytes()).digest())
    return digest.hexdigest()[:24]
