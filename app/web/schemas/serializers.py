"""The API's responses that do not have the same fields as the results of the service."""

from __future__ import annotations

from typing import Any

from app.usecases.results import (
    ChoiceNeeded,
    Compared,
    DetectedFace,
    Photo,
    Search,
)
from app.web.schemas import responses
from index.types import Person, StoredPhoto
from model import wording
from model.bundle import Bundle
from model.types import Verdict


def area(face: DetectedFace) -> responses.FacialArea:
    left, top, right, bottom = (round(value) for value in face.face.box)
    # The person's right eye is on the left side of the image.
    right_eye, left_eye = ([round(float(v)) for v in point] for point in face.face.landmarks[:2])
    return responses.FacialArea(
        x=left, y=top, w=right - left, h=bottom - top, left_eye=left_eye, right_eye=right_eye
    )


def face(found: DetectedFace) -> responses.FaceOut:
    return responses.FaceOut(**_face(found))


def detected(photo: Photo) -> responses.DetectAnswer:
    height, width = photo.picture.shape[:2]
    return responses.DetectAnswer(
        faces=[face(each) for each in photo.faces], width=width, height=height
    )


def embedded(photo: Photo, vectors: Any, bundle: Bundle) -> responses.EmbedAnswer:
    return responses.EmbedAnswer(
        results=[
            responses.EmbeddingOut(
                **_face(found), embedding=vector.tolist(), face_confidence=found.face.confidence
            )
            for found, vector in zip(photo.faces, vectors, strict=True)
        ],
        model=bundle.name,
        model_id=bundle.model_id,
    )


def verified(result: Compared, model: str) -> responses.VerifyAnswer:
    verdict, face_a, face_b = result.verdict, result.face_a, result.face_b
    return responses.VerifyAnswer(
        **_verdict(verdict, result.headline),
        model=model,
        model_id=verdict.model_id,
        calibration_id=verdict.calibration_id,
        same_file=result.same_file,
        facial_areas=responses.FacialAreas(img1=area(face_a), img2=area(face_b)),
        faces=responses.TwoFaces(img1=face(face_a), img2=face(face_b)),
        time=round(result.seconds, 3),
    )


def verdict(value: Verdict, headline: str) -> responses.VerdictOut:
    return responses.VerdictOut(**_verdict(value, headline))


def choice(result: ChoiceNeeded) -> dict[str, Any]:
    """Return what a caller needs to choose the faces: all faces, and the verdict of every pair."""
    pairs = [
        responses.PairOut(
            **_verdict(pair.verdict, wording.headline(pair.verdict)),
            face1=pair.face_a,
            face2=pair.face_b,
        )
        for pair in result.pairs
    ]
    return {
        "faces": {
            "img1": [face(each).model_dump(mode="json") for each in result.photo_a.faces],
            "img2": [face(each).model_dump(mode="json") for each in result.photo_b.faces],
        },
        "pairs": [pair.model_dump(mode="json") for pair in pairs],
    }


def searched(result: Search, model: str) -> responses.SearchAnswer:
    faces = [
        responses.FaceSearchOut(
            face=face(found.face),
            known=found.known,
            candidates=[
                responses.CandidateOut(
                    person_id=each.match.person_id,
                    identity=each.match.name,
                    score=each.match.score,
                    distance=1 - each.match.score,
                    margin=each.match.margin,
                    false_match_chance=each.false_match_chance,
                    known=each.known,
                    photo_id=each.match.photo_id,
                )
                for each in found.candidates
            ],
        )
        for found in result.faces
    ]
    return responses.SearchAnswer(
        faces=faces,
        gallery_size=result.gallery_size,
        threshold=1 - result.threshold,
        score_threshold=result.threshold,
        target_fpir=result.target_fpir,
        supported=result.supported,
        model=model,
        time=round(result.seconds, 3),
    )


def person_with_photos(value: Person, photos: list[StoredPhoto]) -> responses.PersonAnswer:
    known = responses.PersonOut.model_validate(value)
    return responses.PersonAnswer(**dict(known), photo_list=photos)


def _face(found: DetectedFace) -> dict[str, Any]:
    return {
        "number": found.number,
        "facial_area": area(found),
        "box": tuple(round(value, 1) for value in found.face.box),
        "landmarks": [tuple(map(float, point)) for point in found.face.landmarks.round(1)],
        "confidence": found.face.confidence,
        "certain": found.face.certain,
        "quality": found.quality,
        "ignored": found.ignored,
    }


def _verdict(verdict: Verdict, headline: str) -> dict[str, Any]:
    return {
        "verified": verdict.decision == "same",
        "decision": verdict.decision,
        "distance": 1 - verdict.score,
        "threshold": 1 - verdict.threshold,
        "score": verdict.score,
        "score_threshold": verdict.threshold,
        "reject_below": verdict.reject_below,
        "target_fmr": verdict.target_fmr,
        "fmr": verdict.fmr,
        "fnmr": verdict.fnmr,
        "likelihood_ratio": verdict.likelihood_ratio,
        "posterior": verdict.posterior,
        "supported": verdict.supported,
        "headline": headline,
        "reasons": verdict.reasons,
    }
