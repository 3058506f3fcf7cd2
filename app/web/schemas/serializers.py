"""Convert the service's results into the API's responses."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

from app.usecases.results import (
    ChoiceNeeded,
    Compared,
    DetectedFace,
    Enrollment,
    ModelInfo,
    Photo,
    PhotoResult,
    Search,
)
from app.web.schemas import responses
from index.types import Erased, Person, StoredPhoto
from model import wording
from model.bundle import Bundle
from model.calibration import Calibration
from model.types import Quality, Rate, Verdict


def area(face: DetectedFace) -> responses.FacialArea:
    left, top, right, bottom = (round(value) for value in face.face.box)
    # The person's right eye is on the left side of the image.
    right_eye, left_eye = ([round(float(v)) for v in point] for point in face.face.landmarks[:2])
    return responses.FacialArea(
        x=left, y=top, w=right - left, h=bottom - top, left_eye=left_eye, right_eye=right_eye
    )


def quality(value: Quality) -> responses.QualityOut:
    return responses.QualityOut(
        score=value.score,
        reasons=[
            responses.ReasonOut(
                code=each.code, message=each.message, value=each.value, limit=each.limit
            )
            for each in value.reasons
        ],
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
                    false_match_chance=_rate(each.false_match_chance),
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


def person(value: Person) -> responses.PersonOut:
    return responses.PersonOut(**_person(value))


def person_with_photos(value: Person, photos: list[StoredPhoto]) -> responses.PersonAnswer:
    return responses.PersonAnswer(
        **_person(value),
        photo_list=[
            responses.StoredPhotoOut(
                id=each.id,
                name=each.source_name,
                quality=each.quality,
                created=each.created,
                note=each.note,
            )
            for each in photos
        ],
    )


def photo_result(value: PhotoResult) -> responses.PhotoResultOut:
    return responses.PhotoResultOut(
        name=value.name,
        status=value.status,
        message=value.message,
        photo_id=value.photo_id,
        quality=quality(value.quality) if value.quality else None,
        details=value.details,
    )


def enrolled(value: Enrollment) -> responses.EnrollAnswer:
    return responses.EnrollAnswer(
        person_id=value.person_id,
        name=value.name,
        created=value.created,
        accepted=value.accepted,
        photos=[photo_result(each) for each in value.photos],
    )


def erased(value: Erased) -> responses.ErasedAnswer:
    return responses.ErasedAnswer(
        person_id=value.person_id,
        people=value.people,
        photos=value.photos,
        thumbnails=value.thumbnails,
        complete=value.complete,
    )


def model(info: ModelInfo) -> responses.ModelAnswer:
    return responses.ModelAnswer(
        model=info.name,
        model_id=info.model_id,
        dim=info.dim,
        engine=info.engine,
        device=info.device,
        calibration_id=info.calibration_id,
        provenance=info.provenance,
        metrics=info.metrics,
        versions=info.versions,
        index=info.index,
        card=info.card,
    )


def calibration(value: Calibration) -> responses.CalibrationAnswer:
    return responses.CalibrationAnswer(
        id=value.id,
        model_id=value.model_id,
        protocol=value.protocol,
        created=value.created,
        people=value.people,
        photos=value.photos,
        genuine_pairs=value.genuine_pairs,
        impostor_pairs=value.impostor_pairs,
        d_prime=_estimate(value.summary.d_prime),
        eer=_estimate(value.summary.eer),
        thresholds=[
            responses.ThresholdOut(
                target_fmr=each.target_fmr,
                score_threshold=each.threshold,
                fmr=_rate(each.fmr),
                fnmr=_rate(each.fnmr),
                supported=each.supported,
                extrapolated=each.extrapolated,
            )
            for each in value.targets
        ],
        histograms=responses.HistogramsOut(**asdict(value.histograms)),
        warnings=list(value.warnings),
    )


def _face(found: DetectedFace) -> dict[str, Any]:
    return {
        "number": found.number,
        "facial_area": area(found),
        "box": tuple(round(value, 1) for value in found.face.box),
        "landmarks": [tuple(map(float, point)) for point in found.face.landmarks.round(1)],
        "confidence": found.face.confidence,
        "certain": found.face.certain,
        "quality": quality(found.quality),
        "ignored": responses.IgnoredOut(**asdict(found.ignored)),
    }


def _rate(value: Rate) -> responses.RateOut:
    return responses.RateOut(
        value=_finite(value.value), low=_finite(value.low), high=_finite(value.high),
        errors=value.errors, trials=value.trials,
    )  # fmt: skip


def _estimate(value: Any) -> responses.EstimateOut:
    return responses.EstimateOut(
        value=value.value, low=_finite(value.low), high=_finite(value.high)
    )


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


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
        "fmr": _rate(verdict.fmr),
        "fnmr": _rate(verdict.fnmr),
        "likelihood_ratio": _finite(verdict.likelihood_ratio),
        "posterior": verdict.posterior,
        "supported": verdict.supported,
        "headline": headline,
        "reasons": list(verdict.reasons),
    }


def _person(value: Person) -> dict[str, Any]:
    return {
        "id": value.id,
        "name": value.name,
        "consent": value.consent,
        "photos": value.photos,
        "created": value.created,
        "updated": value.updated,
    }
