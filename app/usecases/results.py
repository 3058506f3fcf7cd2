"""Result types of the use-cases: frozen values for the page, the API and the command line."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from model import wording
from model.faces.picture import Picture
from model.types import Face, Match, Quality, Rate, Verdict

PhotoStatus = Literal[
    "accepted",
    "already",
    "duplicate",
    "conflict",
    "outlier",
    "poor_quality",
    "no_face",
    "several_faces",
    "bad_image",
    "too_large",
]
"""Status of one photo in an enrollment. ``already`` occurs only in batches: the same photo is
stored for this person, for example after an interrupted run."""

OVERRIDABLE: tuple[PhotoStatus, ...] = ("conflict", "outlier", "poor_quality")
"""Statuses that a user may override by giving a reason."""


@dataclass(frozen=True)
class Ignored:
    """Other finds in a face's photo that do not make it a photo of several people."""

    background_faces: int = 0
    possible_faces: int = 0

    @property
    def message(self) -> str:
        return wording.ignored(self.background_faces, self.possible_faces)


@dataclass(frozen=True, eq=False)
class DetectedFace:
    """One face of a photo, ready to compare.

    Attributes:
        number: 1 for the largest face of the photo, 2 for the next, and so on.
        face: Box and landmarks in pixels of the upright photo.
        crop: uint8 RGB array ``(112, 112, 3)``, the network's input.
    """

    number: int
    face: Face
    crop: np.ndarray
    quality: Quality
    ignored: Ignored = Ignored()


@dataclass(frozen=True, eq=False)
class Photo:
    """A photo and its faces.

    Attributes:
        picture: The photo, upright.
        faces: Confident detections first, then by area, largest first; may be empty.
    """

    picture: Picture
    faces: tuple[DetectedFace, ...]

    @property
    def image(self) -> np.ndarray:
        """The whole photo, uint8 RGB array ``(H, W, 3)``; decodes it if need be."""
        return self.picture.pixels()

    @property
    def candidates(self) -> tuple[DetectedFace, ...]:
        """The faces a user could mean, in the order of their numbers.

        Excludes small faces in the background and uncertain detections.
        """
        # Imported here because it loads ONNX Runtime, which code without a model does not need.
        from model.faces.detect import candidates

        meant = candidates([each.face for each in self.faces], self.picture.shape)
        return tuple(each for each in self.faces if any(each.face is face for face in meant))

    @property
    def certain(self) -> tuple[DetectedFace, ...]:
        """All confident detections; if there are none, the candidates."""
        return tuple(each for each in self.faces if each.face.certain) or self.candidates


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on face number ``face_a`` of the first photo and ``face_b`` of the second."""

    face_a: int
    face_b: int
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Compared:
    """The comparison of two faces.

    Attributes:
        same_file: Whether both photos are the same image.
    """

    verdict: Verdict
    face_a: DetectedFace
    face_b: DetectedFace
    photo_a: Photo
    photo_b: Photo
    same_file: bool
    seconds: float

    @property
    def headline(self) -> str:
        return wording.SAME_FILE if self.same_file else wording.headline(self.verdict)


@dataclass(frozen=True, eq=False)
class ChoiceNeeded:
    """A photo has several candidate faces, and the caller must choose.

    Attributes:
        pairs: Every pair of candidates with its verdict, highest score first.
    """

    pairs: tuple[PairVerdict, ...]
    photo_a: Photo
    photo_b: Photo
    seconds: float


Verification = Compared | ChoiceNeeded
"""The result of comparing two photos."""


@dataclass(frozen=True)
class Upload:
    """An uploaded photo.

    Attributes:
        name: The sender's name for it; shown to the user, never used as a path.
        face: Number of the face to use, from 1, largest first; None if not chosen.
    """

    name: str
    data: bytes
    face: int | None = None


@dataclass(frozen=True)
class PhotoResult:
    """The result of one photo in an enrollment.

    Attributes:
        status: ``accepted``, or why not.
        photo_id: Its id in the gallery, when accepted.
        details: Facts for programs: the conflicting person, faces found, override reason.
        crop: uint8 ``(112, 112, 3)`` crop of the refused face, to show beside the reason.
    """

    name: str
    status: PhotoStatus
    message: str
    photo_id: str | None = None
    quality: Quality | None = None
    details: dict[str, Any] = field(default_factory=dict)
    crop: np.ndarray | None = field(default=None, compare=False, repr=False)

    @property
    def can_override(self) -> bool:
        return self.status in OVERRIDABLE


@dataclass(frozen=True)
class Enrollment:
    """The result of an enrollment.

    Attributes:
        person_id: The person who got the photos; None if no photo of a new person was accepted.
        photos: One result per photo, in the order given.
    """

    person_id: str | None
    name: str
    created: bool
    photos: tuple[PhotoResult, ...]

    @property
    def accepted(self) -> int:
        return sum(photo.status == "accepted" for photo in self.photos)


@dataclass(frozen=True)
class Candidate:
    """A person who may match a face.

    Attributes:
        false_match_chance: Chance that a stranger matches anyone in a gallery of this size at
            this score or above, with its confidence interval.
        known: Whether the score reaches the threshold for this gallery's size.
        thumbnail: JPEG of the best photo's crop, if thumbnails are kept.
    """

    match: Match
    false_match_chance: Rate
    known: bool
    thumbnail: bytes | None = None


@dataclass(frozen=True, eq=False)
class FaceSearch:
    """The search result of one face.

    Attributes:
        candidates: Best match first, including those below the threshold.
    """

    face: DetectedFace
    candidates: tuple[Candidate, ...]

    @property
    def known(self) -> bool:
        """Whether any candidate reaches the threshold; otherwise the face is unknown."""
        return any(candidate.known for candidate in self.candidates)


@dataclass(frozen=True, eq=False)
class Search:
    """The search result of a photo.

    Attributes:
        faces: One result per face, largest first.
        gallery_size: Number of people searched.
        threshold: Lowest score of a known face, for this gallery size and target.
        target_fpir: False-positive identification rate that the threshold aims at.
        supported: False if the calibration is too small to measure the target.
    """

    photo: Photo
    faces: tuple[FaceSearch, ...]
    gallery_size: int
    threshold: float
    target_fpir: float
    supported: bool
    seconds: float


@dataclass(frozen=True)
class ModelInfo:
    """The model, engine, calibration and index in use."""

    name: str
    model_id: str
    dim: int
    engine: str
    device: str
    card: str
    provenance: dict[str, Any]
    metrics: dict[str, Any]
    versions: dict[str, str]
    calibration_id: str | None
    index: dict[str, Any]
