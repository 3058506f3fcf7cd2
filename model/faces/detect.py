"""Detect the faces of a picture, and choose among several by a named policy."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np
from PIL import Image

from model.errors import NoFace, SeveralFaces
from model.faces.cascade import Cascade, Find
from model.faces.picture import Picture
from model.types import Face

log = logging.getLogger(__name__)

ChoicePolicy = Literal["largest_central", "all", "exactly_one"]

MIN_FACE = 20
"""Shorter side in pixels of the smallest face to find, in the copy that is searched."""

PASSES = ((500, 8), (500, 20), (1000, 50), (2000, 100))
"""Search passes, coarse to fine: the longest side of the copy in pixels, and how many times the
smallest face fits into that side."""

NEXT_SCALE = 1.5
"""A second pass over the same copy skips faces larger than the smallest of the pass before,
divided by this: the cascade finds faces up to this factor beyond the sizes requested."""

CERTAIN = 0.95
"""Lowest face probability of a certain face, both as found and framed upright. Among the main
faces of 673 people of LFW's development training list, one in 500 has less."""

RIVAL = 0.4
"""A certain face competes with the main one if its side is at least this fraction of the main
one's. So the search stops once it covers faces down to this fraction of the largest."""


class Detector:
    """Runs the cascade on copies of bounded size, coarse ones first.

    Time grows with the number of pixels searched, and no network here uses more than 48x48 pixels
    of a face. So a small copy is searched first, and finer ones only if they can change the
    result: no certain face was found, or a rival of the main face (``RIVAL``) may be missing.
    Without a certain face, the picture is also searched turned by 90, 270 and 180 degrees.

    Stateless between calls and thread-safe.

    Example:
        >>> from model.faces.image import open_image
        >>> picture = open_image("app/sample_photos/grace_hopper.jpg")
        >>> (face,) = choose(Detector().detect(picture), "largest_central", picture.shape)
        >>> face.landmarks.shape
        (5, 2)
    """

    def __init__(self) -> None:
        self._cascade = Cascade()

    def detect(self, image: np.ndarray | Picture, *, small_faces: bool = False) -> list[Face]:
        """Find the faces of a picture.

        Args:
            image: The picture, or its uint8 RGB array ``(H, W, 3)``.
            small_faces: Search the finest copy at once: for groups and crowds.

        Returns:
            Faces in pixels of ``image``: certain ones first, then by area, largest first. A box
            may extend beyond the picture. Empty if there is no face.

        Raises:
            ValueError: ``image`` is not a uint8 ``(H, W, 3)`` array.
        """
        picture = image if isinstance(image, Picture) else Picture(image)
        if min(picture.shape[:2]) < MIN_FACE:
            return []
        faces = self._upright(picture, small_faces)
        if not any(face.certain for face in faces):
            faces = self._turned(picture) or faces
        return sorted(faces, key=lambda face: (face.certain, face.area), reverse=True)

    def _upright(self, picture: Picture, small_faces: bool) -> list[Face]:
        longest = max(picture.shape[:2])
        faces: list[Face] = []
        finds: list[Find] = []
        searched, coarser = 0, np.inf
        copy = np.empty(0)
        passes = PASSES[-1:] if small_faces else PASSES
        for side, fraction in passes:
            if min(side, longest) != searched:  # a finer copy: search it from scratch
                copy, finds, coarser = shrunk(picture.pixels(side), side), [], np.inf
            smallest = max(MIN_FACE, max(copy.shape[:2]) / fraction)
            back = picture.ratio(copy)
            known = [find for find in finds if _face(find, back).certain]
            most = coarser / NEXT_SCALE if known else np.inf
            finds = known + self._cascade.find(copy, smallest, max_face=most, known=known)
            searched, coarser = min(side, longest), smallest
            faces = [_face(find, back) for find in finds]
            largest = max((face.area**0.5 for face in faces if face.certain), default=0)
            reached = smallest * float(back.max())
            if reached <= RIVAL * largest or (smallest == MIN_FACE and side >= longest):
                break
        return faces

    def _turned(self, picture: Picture) -> list[Face]:
        """Return the certain faces of the picture turned by 90, 270 or 180 degrees."""
        copy = shrunk(picture.pixels(PASSES[0][0]), PASSES[0][0])
        back = picture.ratio(copy)
        smallest = max(MIN_FACE, max(copy.shape[:2]) / PASSES[1][1])
        for quarters in (1, 3, 2):
            turned = np.ascontiguousarray(np.rot90(copy, quarters))
            found = [
                _face(_turn_back(find, quarters, copy.shape), back)
                for find in self._cascade.find(turned, smallest)
            ]
            if certain := [face for face in found if face.certain]:
                return certain
        return []


def shrunk(image: np.ndarray, side: int) -> np.ndarray:
    """Shrink a picture to a longest side of ``side`` pixels; smaller ones are returned as is."""
    height, width = image.shape[:2]
    shrink = side / max(height, width)
    if shrink >= 1:
        return image
    size = (max(MIN_FACE, round(width * shrink)), max(MIN_FACE, round(height * shrink)))
    picture = Image.fromarray(image)
    return np.asarray(picture.resize(size, Image.Resampling.BOX, reducing_gap=1.5))


def _face(find: Find, back: np.ndarray) -> Face:
    left, top, right, bottom = (find.box.reshape(2, 2) * back).ravel().tolist()
    confidence = min(find.first, find.second)
    return Face(
        box=(left, top, right, bottom),
        landmarks=(find.landmarks * back).astype(np.float32),
        confidence=confidence,
        certain=confidence >= CERTAIN,
    )


def _turn_back(find: Find, quarters: int, shape: Sequence[int]) -> Find:
    """Map a face of ``np.rot90(picture, quarters)`` to the coordinates of the picture."""
    height, width = shape[:2]
    turn_point = {
        1: lambda x, y: (width - y, x),
        2: lambda x, y: (width - x, height - y),
        3: lambda x, y: (y, height - x),
    }[quarters]
    landmarks = np.column_stack(turn_point(find.landmarks[:, 0], find.landmarks[:, 1]))
    corners = np.column_stack(turn_point(find.box[::2], find.box[1::2]))
    box = np.concatenate([corners.min(axis=0), corners.max(axis=0)])
    return replace(find, box=box, landmarks=landmarks)


def main_face(faces: Sequence[Face], image_shape: Sequence[int]) -> Face:
    """Return the most prominent face: large and near the centre.

    A face's area is weighted from 1 at the centre down to 1/4 at the corners. Certain faces
    precede all others.
    """
    centre = np.array([image_shape[1], image_shape[0]]) / 2
    half_diagonal = float(np.hypot(*centre))

    def prominence(face: Face) -> tuple[bool, float]:
        left, top, right, bottom = face.box
        offset = np.hypot(*(np.array([left + right, top + bottom]) / 2 - centre)) / half_diagonal
        return face.certain, face.area * (1 - min(offset, 1) / 2) ** 2

    return max(faces, key=prominence)


def candidates(faces: Sequence[Face], image_shape: Sequence[int]) -> list[Face]:
    """Return the main face and its rivals: the faces the user may mean.

    A rival is certain and its side is at least ``RIVAL`` of the main face's. The rest are small
    background faces or doubtful detections.
    """
    if not faces:
        return []
    main = main_face(faces, image_shape)
    return [main] + [
        face
        for face in faces
        if face is not main and face.certain and face.area >= RIVAL**2 * main.area
    ]


def choose(faces: Sequence[Face], policy: ChoicePolicy, image_shape: Sequence[int]) -> list[Face]:
    """Apply a named policy to the faces of one picture.

    Args:
        policy: ``largest_central``: the main face. ``all``: every face, in the order given.
            ``exactly_one``: the only candidate, or an error; background faces and doubtful
            detections do not count.
        image_shape: ``(height, width, ...)`` of the picture in pixels.

    Raises:
        NoFace: ``faces`` is empty.
        SeveralFaces: The policy is ``exactly_one`` and there is more than one candidate.
    """
    if policy not in get_args(ChoicePolicy):
        raise ValueError(f"policy is {policy!r}; allowed are {', '.join(get_args(ChoicePolicy))}.")
    if not faces:
        raise NoFace(
            "No face was found in the picture. Use one that shows a face larger and from the front."
        )
    if policy == "all":
        return list(faces)
    rivals = candidates(faces, image_shape)
    if policy == "exactly_one" and len(rivals) > 1:
        raise SeveralFaces(
            f"The picture shows {len(rivals)} faces where exactly one is needed. "
            "Crop it to the person meant, or say which face to use.",
            count=len(rivals),
            boxes=[list(face.box) for face in rivals],
        )
    return rivals[:1]
