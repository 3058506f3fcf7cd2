"""What the use-cases answer: frozen values that page, API and command line only show."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

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
"""What became of one photo of an enrollment; ``already`` only in batches: this very photo is
stored for this person, as after an interrupted run."""

OVERRIDABLE: tuple[PhotoStatus, ...] = ("conflict", "outlier", "poor_quality")
"""What a person may accept anyway by giving a reason."""


@dataclass(frozen=True, eq=False)
class DetectedFace:
    """One face of a photo, ready to compare.

    Attributes:
        number: 1 for the largest face of the photo, 2 for the next, and so on.
        face: Box and landmarks in pixels of the upright photo.
        crop: uint8 RGB array ``(112, 112, 3)``, what the network sees.
        quality: How far it can be trusted, and why not.
    """

    number: int
    face: Face
    crop: np.ndarray
    quality: Quality


@dataclass(frozen=True, eq=False)
class Photo:
    """A decoded photo and its faces.

    Attributes:
        image: uint8 RGB array ``(H, W, 3)``, upright.
        faces: Certain ones first, by falling area; may be empty.
    """

    image: np.ndarray
    faces: tuple[DetectedFace, ...]

    @property
    def candidates(self) -> tuple[DetectedFace, ...]:
        """The faces that could be the one meant, in the order of their numbers.

        Small faces in the background and finds that may be no faces are not among them.
        """
        # Here, for it loads torch: what needs no model imports this module too.
        from model.faces.detect import candidates

        meant = candidates([each.face for each in self.faces], self.image.shape)
        return tuple(each for each in self.faces if any(each.face is face for face in meant))

    @property
    def certain(self) -> tuple[DetectedFace, ...]:
        """Every face that is certain to be one; without any, the candidates."""
        return tuple(each for each in self.faces if each.face.certain) or self.candidates


@dataclass(frozen=True)
class PairVerdict:
    """The verdict on face number ``face_a`` of the first photo and ``face_b`` of the second."""

    face_a: int
    face_b: int
    verdict: Verdict


@dataclass(frozen=True, eq=False)
class Compared:
    """Two faces were compared.

    Attributes:
        verdict: The answer.
        face_a: The face compared in the first photo.
        face_b: The face compared in the second photo.
        photo_a: The first photo and all its faces.
        photo_b: The second photo and all its faces.
        same_file: Whether both photos are one and the same picture.
        seconds: Time it took.
    """

    verdict: Verdict
    face_a: DetectedFace
    face_b: DetectedFace
    photo_a: Photo
    photo_b: Photo
    same_file: bool
    seconds: float


@dataclass(frozen=True, eq=False)
class ChoiceNeeded:
    """Several faces could be meant, so nobody was picked.

    Attributes:
        pairs: Every pair of faces that could be meant with its verdict, likeliest first.
        photo_a: The first photo and all its faces.
        photo_b: The second photo and all its faces.
        seconds: Time it took.
    """

    pairs: tuple[PairVerdict, ...]
    photo_a: Photo
    photo_b: Photo
    seconds: float


Verification = Compared | ChoiceNeeded
"""Are the two photos of one person?"""


@dataclass(frozen=True)
class Upload:
    """A photo on its way in.

    Attributes:
        name: What the sender calls it; shown back, never used as a path.
        data: The encoded file.
        face: Which face is meant when there are several, counted from 1, largest first.
    """

    name: str
    data: bytes
    face: int | None = None


@dataclass(frozen=True)
class PhotoResult:
    """What became of one photo of an enrollment.

    Attributes:
        name: The photo's name as uploaded.
        status: ``accepted`` or why not.
        message: The same as a sentence.
        photo_id: Its id in the gallery, when accepted.
        quality: Quality of its face, when one was chosen.
        details: Facts for programs: the conflicting person, faces found, override reason.
        crop: uint8 ``(112, 112, 3)`` of the face that was refused, to show beside the reason.
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
    """What became of an enrollment.

    Attributes:
        person_id: The person the photos went to; None when none was accepted for a new name.
        name: The person's name.
        created: Whether the person is new.
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
    """One person a face may be.

    Attributes:
        match: Person, score, best photo and margin to the next person.
        false_match_chance: Chance that a stranger finds anyone in a gallery of this size at this
            score or above, with its interval.
        known: Whether the score reaches the threshold for this gallery's size.
        thumbnail: JPEG of the best photo's crop, when thumbnails are kept.
    """

    match: Match
    false_match_chance: Rate
    known: bool
    thumbnail: bytes | None = None


@dataclass(frozen=True, eq=False)
class FaceSearch:
    """Who one face of the photo is.

    Attributes:
        face: The face that was looked for.
        candidates: Best first, those below the threshold included.
    """

    face: DetectedFace
    candidates: tuple[Candidate, ...]

    @property
    def known(self) -> bool:
        """False when nobody in the gallery is like enough: "unknown"."""
        return any(candidate.known for candidate in self.candidates)


@dataclass(frozen=True, eq=False)
class Search:
    """Who the faces of a photo are.

    Attributes:
        photo: The photo.
        faces: One result per face, largest first.
        gallery_size: People searched among.
        threshold: Score from which a face counts as known, for this gallery size and target.
        target_fpir: Chance of any false match the threshold is held to.
        supported: False when the calibration is too small to measure the target.
        seconds: Time it took.
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


@dataclass(frozen=True, eq=False)
class Evidence:
    """Which regions of two crops carry their similarity.

    Attributes:
        score: Cosine similarity of the untouched crops.
        map_a: float32 ``(112, 112)``: how far the score falls when this region of the first crop
            is greyed out; negative where the region speaks against the match.
        map_b: The same for the second crop.
    """

    score: float
    map_a: np.ndarray
    map_b: np.ndarray
