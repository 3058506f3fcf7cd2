"""A face detector from MTCNN's three networks: correct at the picture's edge, and fast.

The networks and their weights are facenet-pytorch's, as ONNX graphs (``networks/``). The steps
between them differ from plain MTCNN in three ways:

- The picture is padded with black. A candidate box that crosses the edge is sampled like any
  other. Plain MTCNN clips such a box, stretches the rest to the network's square and maps the
  landmarks back through the unclipped box, which moves them out of the picture.
- Crops are exact area averages, read from a summed-area table for all boxes at once.
- The last network runs again on each face, turned upright and framed by its own landmarks. So the
  landmarks do not depend on which candidate box found the face.
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
"""Input side and stride of the first network, in pixels."""

PYRAMID_STEP = 0.709
"""Scale factor between pyramid levels; each level has half the area of the one before."""

THRESHOLDS = (0.6, 0.7, 0.7)
"""Lowest face probability that each of the three networks accepts."""

OVERLAPS = (0.5, 0.6, 0.5)
"""Largest intersection over union in non-maximum suppression: within a scale of the first network,
across its scales, and after the second. The landmarks do not depend on which box survives."""

HALVED = 4
"""Halve the picture first when a scale is at least this many times smaller."""

MARGIN = 6
"""Black padding in pixels around each scale, half a cell, so faces may be centred on the edge."""

MOST_CANDIDATES = 600
"""Most candidates passed to the second network, best first; bounds time and memory."""

UPRIGHT = np.array(
    [[15.3, 17.1], [32.7, 17.1], [24.0, 27.5], [15.9, 35.7], [32.1, 35.7]], dtype=np.float64
)
"""Landmarks of an upright face in the 48x48 crop that suits the last network best."""

ROUNDS, SETTLED = 3, 0.004
"""Most refinement rounds per face, and the mean landmark movement, as a fraction of the face's
size, below which refinement stops."""

ON_A_FACE = 0.7
"""A box belongs to a face if they overlap by more than this fraction of the smaller area."""

MOST_FACES = 200
"""Most faces refined per picture, most probable first; bounds time."""

MIRRORED = [1, 0, 2, 4, 3]
"""Order of the landmarks in the mirror image."""


@dataclass(frozen=True, eq=False)
class Find:
    """One detected face, in pixels of the input picture.

    Attributes:
        box: float64 ``(4,)``: left, top, right, bottom.
        landmarks: float64 ``(5, 2)``.
        first: Probability of a face in the candidate box.
        second: Mean probability of a face in the upright crop and its mirror image.
        moved: How far refinement moved the landmarks, as a fraction of the face's size.
    """

    box: np.ndarray
    landmarks: np.ndarray
    first: float
    second: float
    moved: float


class Cascade:
    """Finds faces in one picture. Thread-safe."""

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
        """Find the faces of a picture.

        Args:
            image: uint8 ``(H, W, 3)``, RGB.
            min_face: Side in pixels of the smallest face to find, at least 12.
            max_face: Side in pixels of the largest; set it when the large faces are known.
            known: Faces found before in the same picture; boxes on them are skipped.

        Returns:
            The new faces, most probable first.
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
        """Run the first network at every scale; return boxes and probabilities ``(N, 5)``."""
        height, width = image.shape[:2]
        picture = Image.fromarray(image)
        scale = CELL / min_face
        found = []
        # The margin allows scales down to half a cell.
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
        """Run the first network at one scale; return ``(N, 9)``: box, probability, regression."""
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
    """Cut out a face with a margin of its own size, reduced to at most 96 pixels per face.

    Returns:
        The pixels; their top left corner in the picture; the reduction factor.
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
    """Mask of the boxes ``(N, 4+)`` that lie on no known face; see ``ON_A_FACE``."""
    apart = np.ones(len(boxes), bool)
    for face in known:
        low = np.maximum(boxes[:, :2], face.box[:2])
        high = np.minimum(boxes[:, 2:4], face.box[2:])
        own, other = boxes[:, 2:4] - boxes[:, :2], face.box[2:] - face.box[:2]
        smaller = np.minimum(own.prod(axis=1), other.prod())
        apart &= (high - low).clip(0).prod(axis=1) <= ON_A_FACE * smaller
    return apart


def _summed_area(image: np.ndarray) -> np.ndarray:
    """Summed-area table ``(H + 1, W + 1, 3)``: sums of all pixels above and to the left."""
    height, width = image.shape[:2]
    table = np.zeros((height + 1, width + 1, 3), np.int64 if image.size > 2**24 else np.int32)
    sums = table[1:, 1:]
    sums[:] = image  # cumsum itself converts slowly
    np.cumsum(sums, axis=0, out=sums)
    np.cumsum(sums, axis=1, out=sums)
    return table


def _sample(table: np.ndarray, boxes: np.ndarray, size: int) -> np.ndarray:
    """Resample boxes ``(N, 4+)`` to float32 ``(N, 3, size, size)``; black outside the picture."""
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
    above, below = (
        flat.take(at + row, axis=0) * (1 - fx) + flat.take(at + row + 1, axis=0) * fx
        for row in (0, width + 1)
    )
    sums = above * (1 - fy) + below * fy
    means = np.diff(np.diff(sums, axis=1), axis=2) / cells[:, None, None, None]
    return np.ascontiguousarray(means.transpose(0, 3, 1, 2), np.float32)
