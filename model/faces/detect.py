"""Image -> faces, and the named policies for choosing among several."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Literal, get_args

import numpy as np
import torch
from facenet_pytorch import MTCNN
from PIL import Image

from model.errors import EngineUnavailable, NoFace, SeveralFaces
from model.types import Face

log = logging.getLogger(__name__)

ChoicePolicy = Literal["largest_central", "all", "exactly_one"]

MIN_FACE = 20
"""Shorter side in pixels of the smallest face looked for, in the copy that is searched."""

SIDE = 1000
"""Longest side in pixels of the copy searched first: faces from 2% of the picture's width."""

FINE_SIDE = 2000
"""Longest side in pixels of the copy searched for small faces: from 1% of the width."""


class Detector:
    """MTCNN (facenet-pytorch) behind one small interface.

    MTCNN's time grows with the pixels it sees, and it looks at no face with more than 48x48 of
    them. So it is given a copy of bounded size, and its coordinates are brought back to the
    original: on a large photo that changes the time and not the result. Its networks run in
    channels-last order, which gives the same numbers in about two thirds of the time.

    Instances hold no state between calls; any number of threads may share one.

    Args:
        device: Torch device the three small networks run on, such as ``cpu`` or ``cuda``.

    Raises:
        EngineUnavailable: This machine or this build of torch has no such device.
        ValueError: ``device`` is no device name torch knows.

    Example:
        >>> faces = Detector().detect(load_image("team.jpg"))
        >>> face = choose(faces, "largest_central", image.shape)[0]
    """

    def __init__(self, *, device: str = "cpu") -> None:
        try:
            where = torch.device(device)
        except RuntimeError:
            raise ValueError(f"device is {device!r}; give cpu, cuda, cuda:N or mps.") from None
        try:
            torch.zeros(1, device=where)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            raise EngineUnavailable(
                f"Faces cannot be detected on {device!r}: torch does not see that device here. "
                "Use cpu, or install the torch build for this hardware.",
                device=device,
            ) from error
        self.device = str(where)
        self._mtcnn = MTCNN(keep_all=True, min_face_size=MIN_FACE, device=where)
        self._mtcnn.eval().requires_grad_(False).to(memory_format=torch.channels_last)
        log.info("Face detector: MTCNN on %s", self.device)

    def detect(self, image: np.ndarray, *, small_faces: bool = False) -> list[Face]:
        """Find every face, largest first.

        Pictures are searched at ``SIDE`` pixels, and at ``FINE_SIDE`` when that finds nothing
        or small faces are asked for. Never is a picture enlarged.

        Args:
            image: uint8 RGB array ``(H, W, 3)``.
            small_faces: Search the finer copy at once: for groups and crowds, at about four
                times the time on large pictures.

        Returns:
            Faces in pixels of ``image``, by falling area. A box may reach over the edge of the
            picture where the face does. Empty when there is no face.

        Raises:
            ValueError: ``image`` is no uint8 ``(H, W, 3)`` array.
        """
        if image.ndim != 3 or image.shape[2] != 3 or image.dtype != np.uint8:
            raise ValueError(f"image must be uint8 (H, W, 3), not {image.dtype} {image.shape}.")
        if min(image.shape[:2]) < MIN_FACE:
            return []
        faces = self._search(image, FINE_SIDE if small_faces else SIDE)
        if not faces and not small_faces and max(image.shape[:2]) > SIDE:
            faces = self._search(image, FINE_SIDE)
        return sorted(faces, key=lambda face: face.area, reverse=True)

    def _search(self, image: np.ndarray, side: int) -> list[Face]:
        height, width = image.shape[:2]
        picture = Image.fromarray(image)
        shrink = side / max(height, width)
        if shrink < 1:
            # MTCNN needs MIN_FACE pixels in both directions, however narrow the strip.
            size = (max(MIN_FACE, round(width * shrink)), max(MIN_FACE, round(height * shrink)))
            picture = picture.resize(size, Image.Resampling.BOX)
        boxes, scores, points = self._mtcnn.detect(picture, landmarks=True)
        if boxes is None:
            return []
        back = np.array([width / picture.width, height / picture.height])
        return [
            Face(
                box=tuple((box.reshape(2, 2) * back).ravel().tolist()),
                landmarks=(point * back).astype(np.float32),
                confidence=float(score),
            )
            # MTCNN packs its results into object arrays.
            for box, score, point in zip(
                boxes.astype(np.float64), scores, points.astype(np.float64), strict=True
            )
        ]


def choose(faces: Sequence[Face], policy: ChoicePolicy, image_shape: Sequence[int]) -> list[Face]:
    """Apply a named policy to the faces of one picture.

    Args:
        faces: What the detector found.
        policy: ``largest_central``: the one face with the greatest area, counted down to a
            quarter towards the corners of the picture. ``all``: every face, in the order given.
            ``exactly_one``: the only face, or an error.
        image_shape: ``(height, width, ...)`` of the picture in pixels.

    Returns:
        One face or more.

    Raises:
        NoFace: ``faces`` is empty.
        SeveralFaces: The policy is ``exactly_one`` and there are more.
        ValueError: The policy is unknown.
    """
    if policy not in get_args(ChoicePolicy):
        raise ValueError(f"policy is {policy!r}; allowed are {', '.join(get_args(ChoicePolicy))}.")
    if not faces:
        raise NoFace(
            "No face was found in the picture. Use one that shows a face larger and from the front."
        )
    if policy == "exactly_one" and len(faces) > 1:
        raise SeveralFaces(
            f"The picture shows {len(faces)} faces where exactly one is needed. "
            "Crop it to the person meant, or say which face to use.",
            count=len(faces),
            boxes=[list(face.box) for face in faces],
        )
    if policy != "largest_central":
        return list(faces)
    centre = np.array([image_shape[1], image_shape[0]]) / 2
    half_diagonal = float(np.hypot(*centre))

    def prominence(face: Face) -> float:
        left, top, right, bottom = face.box
        offset = np.hypot(*(np.array([left + right, top + bottom]) / 2 - centre)) / half_diagonal
        return face.area * (1 - min(offset, 1) / 2) ** 2

    return [max(faces, key=prominence)]
