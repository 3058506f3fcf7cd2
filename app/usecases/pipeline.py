"""Turn a photo into faces ready to compare: decode, detect, align, assess, embed."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from app.settings import Settings
from app.usecases.pixel_budget import PixelBudget
from app.usecases.results import DetectedFace, Ignored, Photo
from model.embedding.embedder import Embedder
from model.errors import NoFace, SeveralFaces
from model.faces.align import align
from model.faces.detect import Detector, candidates
from model.faces.image import encoded_pixels, open_image
from model.faces.picture import Picture
from model.faces.quality import assess
from model.types import CROP_SIZE


class FaceFinder:
    """Turns a photo into aligned faces with a quality. Thread-safe."""

    def __init__(self, detector: Detector, settings: Settings) -> None:
        self.detector = detector
        self.settings = settings
        # Room for one photo of the largest size, or several small ones.
        self._budget = PixelBudget(settings.max_pixels)

    def photo(self, data: bytes) -> Photo:
        """Decode a photo and find its faces."""
        with self._budget.hold(encoded_pixels(data)):
            picture = open_image(
                data,
                max_bytes=self.settings.max_upload_bytes,
                max_pixels=self.settings.max_pixels,
            )
            return self.faces(picture)

    def faces(self, picture: Picture) -> Photo:
        found = self.detector.detect(picture)[: self.settings.max_faces]
        meant = {id(face) for face in candidates(found, picture.shape)}
        rest = [face for face in found if id(face) not in meant]
        faces = []
        for face in found:
            crop = align(picture, face.landmarks)
            others = [each.certain for each in rest if each is not face]
            ignored = Ignored(others.count(True), others.count(False))
            quality = assess(picture, face, crop)
            faces.append(DetectedFace(len(faces) + 1, face, crop, quality, ignored))
        return Photo(picture, tuple(faces))


class Pipeline(FaceFinder):
    """Detection, alignment, quality and embedding in sequence. Thread-safe."""

    def __init__(self, detector: Detector, embedder: Embedder, settings: Settings) -> None:
        super().__init__(detector, settings)
        self.embedder = embedder
        # Warm up: the first run is slow, and no request should wait for it.
        self.dim = self.embedder.embed(np.zeros((1, CROP_SIZE, CROP_SIZE, 3), np.uint8)).shape[1]

    def close(self) -> None:
        self.embedder.close()

    def embed(self, faces: Sequence[DetectedFace]) -> np.ndarray:
        """Return the float32 unit vectors ``(N, D)`` of the faces, from one batch."""
        if not faces:
            return np.empty((0, self.dim), np.float32)
        return self.embedder.embed([face.crop for face in faces])


def meant_faces(photo: Photo, number: int | None, which: str) -> tuple[DetectedFace, ...]:
    """Return the face with the given number, or all candidates without a number.

    Args:
        which: The photo's name in an error, such as "the first photo".

    Raises:
        NoFace: The photo has no face, or none with that number.
    """
    require_face(photo, which)
    if number is None:
        return photo.candidates
    if not 1 <= number <= len(photo.faces):
        raise NoFace(
            f"There is no face number {number} in {which}; it has {len(photo.faces)}, counted "
            "from 1, largest first.",
            photo=which,
            count=len(photo.faces),
        )
    return (photo.faces[number - 1],)


def require_face(photo: Photo, which: str) -> None:
    """Check that a photo has a face."""
    if not photo.faces:
        height, width = photo.picture.shape[:2]
        raise NoFace(
            f"No face was found in {which} ({width}x{height} pixels). "
            "Use one in which a face is well visible.",
            photo=which,
        )


def only_face(photo: Photo, number: int | None, which: str) -> DetectedFace:
    """Return the face with the given number, or the only candidate.

    Raises:
        SeveralFaces: There are several candidates and no number was given.
    """
    faces = meant_faces(photo, number, which)
    if len(faces) > 1:
        raise SeveralFaces(
            f"There are {len(faces)} faces in {which}; say which one is meant by its number.",
            photo=which,
            count=len(faces),
            boxes=[[round(v, 1) for v in face.face.box] for face in faces],
        )
    return faces[0]
