"""MTCNN's three networks in a cascade of our own: right at the picture's edge, and fast.

The networks and their weights are facenet-pytorch's, as ONNX graphs (``networks/``). What is done
between them differs in three ways:

- Beyond the edge a picture is black. A candidate box that reaches over the edge is sampled there
  like anywhere else. Plain MTCNN cuts such a box, stretches what is left to the network's square
  and maps the landmarks back through the uncut box, which throws them out of the picture.
- Crops are averages over exact areas, read from a summed-area table for all boxes at once.
- The last network looks again at each face, turned upright and framed by its own landmarks, so
  that the landmarks do not depend on which candidate box happened to find the face.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from model.faces.boxes import regress, square, suppress
from model.faces.geometry import similarity
from model.faces.warp import warp
from model.onnx_runtime import open_session

NETWORKS = Path(__file__).parent / "networks"

CELL, STRIDE = 12, 2
"""Side of the square that the first network judges, and the step between two, in its pixels."""

PYRAMID_STEP = 0.709
"""Each scale of the pyramid halves the area."""

THRESHOLDS = (0.6, 0.7, 0.7)
"""Probability of a face that each of the three networks asks for."""

OVERLAPS = (0.5, 0.6, 0.5)
"""Share of two boxes' union above which only the better goes on: within a scale of the first
network, among its scales, after the second. Landmarks do not depend on the box that goes on."""

HALVED = 4
"""The picture is halved before a scale this many times smaller is made of it."""

MARGIN = 6
"""Black pixels around each scale, half a cell: a face may be centred on the picture's edge."""

MOST_CANDIDATES = 600
"""Candidates that reach the second network, most probable first; bounds time and memory."""

UPRIGHT = np.array(
    [[15.3, 17.1], [32.7, 17.1], [24.0, 27.5], [15.9, 35.7], [32.1, 35.7]], dtype=np.float64
)
"""Landmarks of an upright face as the last network likes to see it, in its 48x48 crop."""

ROUNDS, SETTLED = 3, 0.004
"""How often a face is framed anew by its landmarks, at most, and the mean movement, as a share of
the face's size, below which that ends."""

ON_A_FACE = 0.7
"""A box that shares more than this of the smaller one's area with a face is of that face."""

MOST_FACES = 200
"""Faces of one picture that are looked at again, most probable first; bounds time."""

MIRRORED = [1, 0, 2, 4, 3]
"""Order of the landmarks in the mirror image."""


@dataclass(frozen=True, eq=False)
class Find:
    """What the cascade says of one face, in pixels of the picture it was given.

    Attributes:
        box: float64 ``(4,)``: left, top, right, bottom.
        landmarks: float64 ``(5, 2)``.
        first: Probability of a face in the candidate box.
        second: Probability of a face in the upright crop and its mirror image, their mean.
        moved: How far framing it anew moved the landmarks, as a share of the face's size.
    """

    box: np.ndarray
    landmarks: np.ndarray
    first: float
    second: float
    moved: float


class Cascade:
    """Finds faces in one picture. Threads may share an instance."""

    def __init__(self) -> None:
        self._pnet, self._rnet, self._onet = (
            open_session(NETWORKS / f"{name}.onnx", threads=1) for name in ("pnet", "rnet", "onet")
        )

    def find(
        self,
        image: np.ndarray,
        min_face: float,
        *,
        max_face: float = np.inf,
        known: Sequence[Find] = (),
    ) -> list[Find]:
        """All faces of a picture.

        Args:
            image: uint8 ``(H, W, 3)``, RGB.
            min_face: Side in pixels of the smallest face looked for, 12 at least.
            max_face: Side in pixels of the largest; for pictures whose large faces are known.
            known: Faces found before in the same picture; what lies on one is not looked at again.

        Returns:
            Those that are not known, by falling probability.
        """
        boxes = self._candidates(image, min_face, max_face)
        boxes = boxes[_apart(boxes, known)]
        if not len(boxes):
            return []
        table = _summed_area(image)
        boxes = self._second(table, boxes)
        if not len(boxes):
            return []
        boxes, points, scores = self._third(table, boxes)
        found = zip(boxes, points, scores, _apart(boxes, known), strict=True)
        return [self._refine(image, *each) for *each, new in found if new]

    def _candidates(self, image: np.ndarray, min_face: float, max_face: float) -> np.ndarray:
        """Boxes ``(N, 5)`` with their probability, from the first network at every scale."""
        height, width = image.shape[:2]
        picture = Image.fromarray(image)
        scale = CELL / min_face
        found = []
        # With its margin a picture may be up to twice as small as a cell.
        while min(height, width) * scale >= CELL / 2 and CELL / scale <= max_face * 1.5:
            size = (max(1, round(width * scale)), max(1, round(height * scale)))
            if min(picture.size) >= HALVED * max(size):
                picture = picture.reduce(2)
            small = np.asarray(picture.resize(size, Image.Resampling.BOX))
            found.append(self._first(small, size[0] / width, size[1] / height))
            scale *= PYRAMID_STEP
        boxes = np.concatenate(found) if found else np.empty((0, 9))
        boxes = boxes[suppress(boxes[:, :4], boxes[:, 4], OVERLAPS[1])][:MOST_CANDIDATES]
        return np.column_stack([square(regress(boxes[:, :4], boxes[:, 5:], 0)), boxes[:, 4]])

    def _first(self, small: np.ndarray, scale_x: float, scale_y: float) -> np.ndarray:
        """Boxes of one scale ``(N, 9)``: box, probability, regression."""
        height, width = small.shape[:2]
        planes = np.zeros((1, 3, height + 2 * MARGIN, width + 2 * MARGIN), np.float32)
        planes[0, :, MARGIN:-MARGIN, MARGIN:-MARGIN] = small.transpose(2, 0, 1)
        shifts, probabilities = self._pnet.run(None, {"pixels": planes})
        rows, columns = np.nonzero(probabilities[0, 1] >= THRESHOLDS[0])
        if not len(rows):
            return np.empty((0, 9))
        corner = np.column_stack([columns, rows]) * STRIDE - MARGIN
        scales = np.array([scale_x, scale_y])
        boxes = np.column_stack([(corner + 1) / scales, (corner + CELL) / scales])
        scores = probabilities[0, 1, rows, columns]
        kept = suppress(boxes, scores, OVERLAPS[0])
        shifts = shifts[0, :, rows, columns]
        return np.column_stack([boxes, scores, shifts])[kept]

    def _second(self, table: np.ndarray, boxes: np.ndarray) -> np.ndarray:
        shifts, scores = self._rnet.run(None, {"pixels": _sample(table, boxes, 24)})
        sure = scores[:, 1] > THRESHOLDS[1]
        boxes, scores, shifts = boxes[sure, :4], scores[sure, 1], shifts[sure]
        kept = suppress(boxes, scores, OVERLAPS[2])
        return square(regress(boxes[kept], shifts[kept], 1))

    def _third(
        self, table: np.ndarray, boxes: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        shifts, points, scores = self._onet.run(None, {"pixels": _sample(table, boxes, 48)})
        sure = scores[:, 1] > THRESHOLDS[2]
        boxes, scores, shifts, points = boxes[sure], scores[sure, 1], shifts[sure], points[sure]
        corner, size = boxes[:, None, :2] - 1, boxes[:, None, 2:] - boxes[:, None, :2] + 1
        landmarks = points.reshape(-1, 2, 5).transpose(0, 2, 1) * size + corner
        boxes = regress(boxes, shifts, 1)
        kept = suppress(boxes, scores, ON_A_FACE, by_smaller=True)[:MOST_FACES]
        return boxes[kept], landmarks[kept], scores[kept]

    def _refine(self, image: np.ndarray, box: np.ndarray, start: np.ndarray, first: float) -> Find:
        size = float(np.sqrt(np.prod(box[2:] - box[:2]).clip(1)))
        near, corner, shrink = _surroundings(image, box, size)
        points, second = (start - corner) / shrink, 0.0
        for _ in range(ROUNDS):
            before = points
            to_crop = similarity(points, UPRIGHT)
            crop = warp(near, to_crop, 48)
            pair = np.stack([crop, crop[:, ::-1]]).transpose(0, 3, 1, 2).astype(np.float32)
            _, seen, scores = self._onet.run(None, {"pixels": np.ascontiguousarray(pair)})
            seen = seen.reshape(2, 2, 5).transpose(0, 2, 1) * 48.0
            seen[1] = (seen[1] * (-1, 1) + (48, 0))[MIRRORED]
            second = float(scores[:, 1].mean())
            points = (seen.mean(0) - to_crop[:, 2]) @ np.linalg.inv(to_crop[:, :2]).T
            if np.linalg.norm(points - before, axis=1).mean() < SETTLED * size / shrink:
                break
        points = points * shrink + corner
        moved = float(np.linalg.norm(points - start, axis=1).mean() / size)
        return Find(box, points, float(first), second, moved)


def _surroundings(
    image: np.ndarray, box: np.ndarray, size: float
) -> tuple[np.ndarray, np.ndarray, int]:
    """The picture within one face's size of a face, averaged down to at most 96 pixels a face.

    Returns:
        The pixels; their corner in the picture; how many of its pixels make one.
    """
    shrink = max(1, int(size / 48))
    height, width = image.shape[:2]
    left, top = np.floor((box[:2] - size).clip(0, (width - 1, height - 1))).astype(int)
    right, bottom = np.ceil((box[2:] + size).clip((left + 1, top + 1), (width, height))).astype(int)
    near = np.ascontiguousarray(image[top:bottom, left:right])
    if shrink > 1:
        near = np.asarray(Image.fromarray(near).reduce(shrink))
    return near, np.array([left, top]), shrink


def _apart(boxes: np.ndarray, known: Sequence[Find]) -> np.ndarray:
    """Which boxes ``(N, 4+)`` lie on no known face: by the share of the smaller of the two."""
    apart = np.ones(len(boxes), bool)
    for face in known:
        low = np.maximum(boxes[:, :2], face.box[:2])
        high = np.minimum(boxes[:, 2:4], face.box[2:])
        own, other = boxes[:, 2:4] - boxes[:, :2], face.box[2:] - face.box[:2]
        smaller = np.minimum(own.prod(axis=1), other.prod())
        apart &= (high - low).clip(0).prod(axis=1) <= ON_A_FACE * smaller
    return apart


def _summed_area(image: np.ndarray) -> np.ndarray:
    """``(H + 1, W + 1, 3)``: the sum of all pixels above and to the left."""
    height, width = image.shape[:2]
    table = np.zeros((height + 1, width + 1, 3), np.int64 if image.size > 2**24 else np.int32)
    np.cumsum(image, axis=0, dtype=table.dtype, out=table[1:, 1:])
    np.cumsum(table[1:, 1:], axis=1, out=table[1:, 1:])
    return table


def _sample(table: np.ndarray, boxes: np.ndarray, size: int) -> np.ndarray:
    """Boxes ``(N, 4+)`` averaged down to float32 ``(N, 3, size, size)``; black beyond the edge."""
    height, width = table.shape[0] - 1, table.shape[1] - 1
    steps = np.linspace(0, 1, size + 1)
    corner, extent = boxes[:, :2] - 1, boxes[:, 2:4] - boxes[:, :2] + 1
    xs = corner[:, :1] + extent[:, :1] * steps
    ys = corner[:, 1:] + extent[:, 1:] * steps
    cells = (extent[:, 0] * extent[:, 1]) / size**2
    xs, ys = xs.clip(0, width), ys.clip(0, height)
    left = np.minimum(xs.astype(np.int64), width - 1)
    top = np.minimum(ys.astype(np.int64), height - 1)
    fx, fy = (xs - left)[:, None, :, None], (ys - top)[:, :, None, None]
    flat = table.reshape(-1, 3)
    at = top[:, :, None] * (width + 1) + left[:, None, :]
    above = flat[at] * (1 - fx) + flat[at + 1] * fx
    below = flat[at + width + 1] * (1 - fx) + flat[at + width + 2] * fx
    sums = above * (1 - fy) + below * fy
    means = np.diff(np.diff(sums, axis=1), axis=2) / cells[:, None, None, None]
    return np.ascontiguousarray(means.transpose(0, 3, 1, 2), np.float32)
