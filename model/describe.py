"""``python -m model describe``: describe the faces of a photo, as JSON and as a picture."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any, get_args

import numpy as np
from PIL import Image

from model.bundle import DEFAULT, Bundle
from model.embedding.embedder import Embedder
from model.errors import FaceError
from model.faces.align import align
from model.faces.annotate import annotate
from model.faces.detect import ChoicePolicy, Detector, choose
from model.faces.image import open_image
from model.faces.quality import assess
from model.types import Face, Quality


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("photo", type=Path)
    parser.add_argument("--bundle", type=Path, default=DEFAULT, help="model to embed with")
    parser.add_argument("--no-embedding", action="store_true", help="faces and quality only")
    parser.add_argument(
        "--faces",
        choices=get_args(ChoicePolicy),
        default="all",
        help="which faces to describe (all)",
    )
    parser.add_argument(
        "--small-faces", action="store_true", help="search finer, for groups and crowds"
    )
    parser.add_argument(
        "--annotate", type=Path, metavar="FILE", help="write the photo with the faces drawn in"
    )


def run(args: argparse.Namespace) -> int:
    """Print the description of ``args.photo``.

    Returns:
        Exit status: 0, or 1 if the photo shows no face.

    Raises:
        FaceError: The photo or the bundle cannot be read, the annotated picture cannot be
            written, or the photo does not satisfy ``args.faces``.
    """
    picture = open_image(args.photo)
    embedder = None if args.no_embedding else Embedder(Bundle.load(args.bundle))
    faces = Detector().detect(picture, small_faces=args.small_faces)
    if faces:
        faces = choose(faces, args.faces, picture.shape)
    crops = [align(picture, face.landmarks) for face in faces]
    qualities = [assess(picture, face, crop) for face, crop in zip(faces, crops, strict=True)]
    report: dict[str, Any] = {
        "photo": str(args.photo),
        "width": picture.shape[1],
        "height": picture.shape[0],
        "faces": [
            _face_report(number, face, quality)
            for number, (face, quality) in enumerate(zip(faces, qualities, strict=True), start=1)
        ],
    }
    if embedder is not None:
        report["model"] = {
            "model_id": embedder.model_id,
            "engine": embedder.engine,
            "device": embedder.device,
        }
        if crops:
            for entry, vector in zip(report["faces"], embedder.embed(crops), strict=True):
                norm = float(np.linalg.norm(vector))
                entry["embedding"] = {"dimensions": len(vector), "norm": round(norm, 6)}
    if args.annotate:
        _write(args.annotate, annotate(picture.pixels(), faces, qualities))
    print(json.dumps(report, indent=2, ensure_ascii=False))
    return 0 if faces else 1


def _face_report(number: int, face: Face, quality: Quality) -> dict[str, Any]:
    return {
        "number": number,
        "box": [round(value, 1) for value in face.box],
        "landmarks": [[round(value, 1) for value in point] for point in face.landmarks.tolist()],
        "confidence": round(face.confidence, 4),
        "quality": {
            "score": round(quality.score, 3),
            "reasons": [
                {
                    "code": reason.code,
                    "message": reason.message,
                    "value": round(reason.value, 4),
                    "limit": reason.limit,
                }
                for reason in quality.reasons
            ],
            "measures": {name: round(value, 4) for name, value in quality.measures.items()},
        },
    }


def _write(path: Path, pixels: np.ndarray) -> None:
    try:
        Image.fromarray(pixels).save(path)
    except (OSError, ValueError) as error:
        raise FaceError(
            f"The annotated picture cannot be written to {path}: {error}. "
            "Give a writable path that ends in .jpg or .png."
        ) from error
