"""From photo to face, timed against plain MTCNN and plain resizing in the same run.

Every row is a function that prints itself. Times are the median of a few runs, in CPU time on one
thread: unlike the clock on the wall that does not count what else the machine is doing. Embedding
runs on all threads and is timed by the clock. Read the ratios before the milliseconds.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from facenet_pytorch import MTCNN
from PIL import Image

from model.bundle import DEFAULT, Bundle
from model.embedding.embedder import Embedder
from model.faces.align import align
from model.faces.detect import Detector
from model.faces.image import load_image
from model.faces.quality import CHECKS, assess
from model.types import Face
from tests.bench._lfw import lfw_photos

wall = time.perf_counter


def seconds(
    work: Callable[[], object], repeats: int, clock: Callable[[], float] = time.process_time
) -> float:
    """Median time of ``work`` after one run to warm up; CPU time unless told otherwise."""
    work()
    times = []
    for _ in range(repeats):
        start = clock()
        work()
        times.append(clock() - start)
    return statistics.median(times)


def row(what: str, ours: float, baseline: float | None = None, note: str = "") -> None:
    """Print one line of the table: our time, the baseline's, and how many times faster."""
    against = f"{baseline * 1e3:10.1f} {baseline / ours:7.1f}x" if baseline else " " * 19
    print(f"{what:<34}{ours * 1e3:10.1f} {against}  {note}".rstrip(), flush=True)


def overlap(a: Sequence[float], b: Sequence[float]) -> float:
    """Intersection over union of two boxes."""
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    both = width * height
    return both / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - both)


def plain_boxes(plain: MTCNN, image: np.ndarray) -> list[list[float]]:
    """What plain MTCNN finds: lists of left, top, right, bottom, confidence."""
    boxes, scores = plain.detect(Image.fromarray(image))
    if boxes is None:
        return []
    return [[*map(float, box), float(score)] for box, score in zip(boxes, scores, strict=True)]


def found_again(reference: list[list[float]], faces: list[Face]) -> str:
    """How many reference boxes have a face of ours at the same place (IoU of a half or more).

    Counted for the sure ones, those our quality check would not call ``uncertain_face``, and for
    all: the rest are mostly ears, collars and halves of faces that either search may report.
    """
    sure = next(check.limit for check in CHECKS if check.code == "uncertain_face")
    hits = [any(overlap(box, face.box) >= 0.5 for face in faces) for box in reference]
    sure_hits = [hit for hit, box in zip(hits, reference, strict=True) if box[4] >= sure]
    return (
        f"{sum(sure_hits)} of plain's {len(sure_hits)} sure faces found, "
        f"{sum(hits)} of all its {len(hits)}; {len(faces)} by ours"
    )


def mosaic(photos: Sequence[np.ndarray], width: int, height: int, columns: int) -> np.ndarray:
    """Photos enlarged side by side: a large picture whose faces are known."""
    cell = width // columns
    canvas = Image.new("RGB", (width, height), (128, 128, 128))
    for index, photo in enumerate(photos):
        at = (index % columns * cell, index // columns * cell)
        enlarged = Image.fromarray(photo).resize((cell, cell), Image.Resampling.BICUBIC)
        canvas.paste(enlarged, at)
    return np.array(canvas)


def people_found(boxes: Sequence[Sequence[float]], count: int, width: int, columns: int) -> int:
    """How many of a mosaic's people are found: LFW has its person in the middle of the photo."""
    cell = width // columns
    middles = [((i % columns + 0.5) * cell, (i // columns + 0.5) * cell) for i in range(count)]
    return sum(
        any(box[0] <= x <= box[2] and box[1] <= y <= box[3] for box in boxes) for x, y in middles
    )


def detection_rows(detector: Detector, plain: MTCNN, photos: Sequence[np.ndarray]) -> None:
    """Detection at 250 pixels, 1 megapixel and 12 megapixels."""
    sample = photos[:20]
    row(
        "detect, 250x250, a photo",
        seconds(lambda: [detector.detect(photo) for photo in sample], 3) / len(sample),
        seconds(lambda: [plain_boxes(plain, photo) for photo in sample], 3) / len(sample),
    )
    for title, people, (width, height, columns), repeats in (
        ("detect, 1 MP, 6 people", 6, (1200, 800, 3), 3),
        ("detect, 12 MP, 1 person", 1, (4000, 3000, 2), 1),
        ("detect, 12 MP, 12 people", 12, (4000, 3000, 4), 1),
    ):
        image = mosaic(photos[:people], width, height, columns)
        theirs, ours = plain_boxes(plain, image), detector.detect(image)
        found = [
            people_found(boxes, people, width, columns)
            for boxes in (theirs, [face.box for face in ours])
        ]
        (own, base), (own_wall, base_wall) = (
            (
                seconds(lambda image=image: detector.detect(image), 3, clock),
                seconds(lambda image=image: plain_boxes(plain, image), repeats, clock),
            )
            for clock in (time.process_time, wall)
        )
        note = f"{base_wall / own_wall:.1f}x by the wall clock; people found: plain {found[0]}, "
        row(title, own, base, f"{note}ours {found[1]}; {found_again(theirs, ours)}")


def recall_rows(detector: Detector, plain: MTCNN, photos: Sequence[np.ndarray]) -> None:
    """Faces of plain MTCNN that are found again, on LFW."""
    reference, ours, without = [], [], 0
    for index, photo in enumerate(photos):
        faces = detector.detect(photo)
        without += not faces
        # One common plane, each photo in a place of its own.
        shift = 1000.0 * index
        reference += [
            [box[0] + shift, box[1], box[2] + shift, box[3], box[4]]
            for box in plain_boxes(plain, photo)
        ]
        for face in faces:
            left, top, right, bottom = face.box
            moved = (left + shift, top, right + shift, bottom)
            ours.append(Face(moved, face.landmarks, face.confidence))
    print(
        f"recall on {len(photos)} LFW photos: {found_again(reference, ours)}; "
        f"{without} photos without a face"
    )


def alignment_rows(detector: Detector, photos: Sequence[np.ndarray]) -> None:
    """The warp and the quality report, against a plain cut-out and resize."""
    large = mosaic(photos[:1], 4000, 3000, 1)
    for title, image in (("250x250", photos[0]), ("12 MP, one large face", large)):
        face = detector.detect(image)[0]
        crop = align(image, face.landmarks)
        box = tuple(round(value) for value in face.box)

        def cut(image: np.ndarray = image, box: tuple[int, ...] = box) -> Image.Image:
            return Image.fromarray(image).crop(box).resize((112, 112), Image.Resampling.BICUBIC)

        row(
            f"align, {title}",
            seconds(lambda image=image, face=face: align(image, face.landmarks), 15),
            seconds(cut, 15),
            "baseline: cut out and resize",
        )
        row(
            f"quality, {title}",
            seconds(lambda image=image, face=face, crop=crop: assess(image, face, crop), 15),
        )


def decoding_rows(paths: Sequence[Path]) -> None:
    """The decoder against Pillow without any check."""
    sample = [path.read_bytes() for path in paths[:50]]

    def bare() -> None:
        for path in paths[:50]:
            np.array(Image.open(path).convert("RGB"))

    row(
        "decode, 250x250 JPEG",
        seconds(lambda: [load_image(data) for data in sample], 5) / len(sample),
        seconds(bare, 5) / len(sample),
        "baseline: Pillow, unchecked",
    )


def embedding_rows(detector: Detector, bundle: Bundle, photos: Sequence[np.ndarray]) -> None:
    """Each engine on one face and on 64, and the whole way; by the clock, with all threads."""
    torch.set_num_threads(os.cpu_count() or 1)
    faces = [(photo, found[0]) for photo in photos[:64] if (found := detector.detect(photo))]
    crops = np.stack([align(photo, face.landmarks) for photo, face in faces])
    plain = Embedder(bundle, engine="torch", device="cpu")
    for engine in ("torch", "onnxruntime"):
        embedder = Embedder(bundle, engine=engine, device="cpu")
        for count in (1, len(crops)):
            row(
                f"embed {count}, {engine}, a face",
                seconds(lambda e=embedder, n=count: e.embed(crops[:n]), 5, wall) / count,
                seconds(lambda n=count: plain.embed(crops[:n]), 5, wall) / count,
                "baseline: torch",
            )

    embedder = Embedder(bundle)

    def whole() -> None:
        image = photos[0]
        found = detector.detect(image)[0]
        crop = align(image, found.landmarks)
        assess(image, found, crop)
        embedder.embed(crop[None])

    row(f"250x250 photo to embedding, {embedder.engine}", seconds(whole, 15, wall))


def main(argv: list[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench pipeline")
    parser.add_argument("--lfw", type=Path, help="the folder with lfw_funneled/")
    parser.add_argument("--bundle", type=Path, default=DEFAULT, help="the model to time")
    parser.add_argument("--photos", type=int, default=500, help="photos to count recall on (500)")
    args = parser.parse_args(argv)

    torch.set_num_threads(1)
    paths = random.Random(0).sample(lfw_photos(args.lfw), args.photos)
    photos = [load_image(path) for path in paths]
    detector, plain = Detector(), MTCNN(keep_all=True)
    print(f"{platform.machine()}, torch {torch.__version__}, CPU time on one thread")
    print(f"{'':<34}{'ms':>10} {'baseline':>10} {'faster':>8}")
    decoding_rows(paths)
    detection_rows(detector, plain, photos)
    alignment_rows(detector, photos)
    embedding_rows(detector, Bundle.load(args.bundle), photos)
    torch.set_num_threads(1)
    recall_rows(detector, plain, photos)
    return 0
