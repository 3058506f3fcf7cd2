"""The state of an enrollment in progress: each photo's result, and the user's decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from app.service import FaceService
from app.ui.cards.enrollment import Decision, Outcome
from app.ui.cards.faces import boxed
from app.ui.widgets.photo_picker import digest
from app.usecases.results import OVERRIDABLE, PhotoResult, Upload
from index.types import Person
from model import wording
from model.errors import FaceError


@dataclass(frozen=True, eq=False)
class Choice:
    """The user's decisions about one photo.

    Attributes:
        reasons: Reason by status for storing the photo anyway.
        doubted: The user rejected a conflict once and is asked again.
        left_out: Do not store the photo.
    """

    face: int | None = None
    reasons: dict[str, str] = field(default_factory=dict)
    doubted: bool = False
    left_out: bool = False


@dataclass(frozen=True, eq=False)
class Enrolling:
    """The state of an enrollment; photos are identified by their hash.

    Attributes:
        new_person: Create a new person even if someone has that name.
        person_id: The person who gets the photos, once known.
        created: Whether this enrollment created the person.
        results: Result by photo, in the order given.
        choices: The user's decisions by photo.
        stopped: Whether the user stopped before all photos were processed.
    """

    name: str
    consent: str
    total: int
    new_person: bool = False
    person_id: str | None = None
    created: bool = False
    results: dict[str, PhotoResult] = field(default_factory=dict)
    choices: dict[str, Choice] = field(default_factory=dict)
    stopped: bool = False

    def stored(self, service: FaceService, upload: Upload) -> Enrolling:
        """Try to store a photo, with the user's decisions about it."""
        photo = digest(upload)
        choice = self.choices.get(photo, Choice())
        if choice.face is not None:
            upload = replace(upload, face=choice.face)
        done = service.enroll(
            self.name, [upload], consent=self.consent, overrides=choice.reasons,
            person_id=self.person_id, new_person=self.new_person,
        )  # fmt: skip
        return replace(
            self,
            person_id=done.person_id or self.person_id,
            created=self.created or done.created,
            results={**self.results, photo: done.photos[0]},
        )

    def decided(self, service: FaceService, upload: Upload, asked: dict[str, str]) -> Enrolling:
        """Apply a decision about one photo.

        Args:
            asked: The data of the click: ``act`` and its arguments.
        """
        photo, act = digest(upload), asked["act"]
        if photo not in self.results:
            raise FaceError("The photos have changed since. Press Enroll again.")
        choice = self.choices.get(photo, Choice())
        if act == "leave":
            return self._choosing(photo, replace(choice, left_out=True))
        if act in ("doubt", "calm"):
            return self._choosing(photo, replace(choice, doubted=act == "doubt"))
        if act == "face":
            chosen = replace(choice, face=int(asked["face"]))
            return self._choosing(photo, chosen).stored(service, upload)
        if act == "give":
            return self._given(service, upload, asked["person"], choice.face)
        status, reason = asked["status"], asked.get("reason", "").strip()
        if status == "conflict" and not choice.doubted:
            raise FaceError("A conflict is asked about twice.")
        if act != "insist" or status not in OVERRIDABLE or not reason:
            raise FaceError("Give a reason first.")
        insisted = replace(choice, reasons={**choice.reasons, status: reason}, doubted=False)
        return self._choosing(photo, insisted).stored(service, upload)

    def _choosing(self, photo: str, choice: Choice) -> Enrolling:
        return replace(self, choices={**self.choices, photo: choice})

    def _given(
        self, service: FaceService, upload: Upload, person_id: str, face: int | None
    ) -> Enrolling:
        """Store a photo for another person, whom it resembles."""
        done = service.enroll(None, [replace(upload, face=face)], person_id=person_id)
        return replace(self, results={**self.results, digest(upload): done.photos[0]})

    def outcome(
        self, service: FaceService | None = None, waiting: Sequence[Decision] = ()
    ) -> Outcome:
        """Return what to show; with a service, also whether the person is new."""
        note = ""
        mine = [each for each in self.results.values() if each.status == "accepted"]
        if service and mine and self.person_id:
            note = went_to(service.person(self.person_id), self.created)
        return Outcome(
            self.name, list(self.results.values()), self.total, waiting,
            person_id=self.person_id or "", note=note, stopped=self.stopped,
        )  # fmt: skip


def went_to(person: Person, created: bool) -> str:
    """Say whether the photos created a new person or went to an existing one."""
    if created:
        return f"New person: {person.name}."
    return f"Added to {person.name}, who has {wording.plural(person.photos, 'photo')} now."


def decisions(
    service: FaceService, session: Enrolling, uploads: Sequence[Upload]
) -> list[Decision]:
    """Return the open decisions, one per photo."""
    by_photo = {digest(upload): upload for upload in uploads}
    return [
        _decision(service, session, photo, result, by_photo[photo])
        for photo, result in session.results.items()
        if photo in by_photo
        and not session.choices.get(photo, Choice()).left_out
        and (result.can_override or result.status == "several_faces")
    ]


def _decision(
    service: FaceService, session: Enrolling, photo: str, result: PhotoResult, upload: Upload
) -> Decision:
    if result.status == "several_faces":
        seen = service.detect(upload.data)
        drawing = boxed(upload.name, seen, act="face", data={"photo": photo})
        return Decision(photo, result, drawing=drawing)
    if result.status == "conflict":
        other = result.details["person_id"]
        verdict = service.calibration().decide(result.details["score"], service.settings.target_fmr)
        return Decision(
            photo,
            result,
            other=result.details["name"],
            other_id=other,
            other_face=service.face_of(other),
            likeness=f"{wording.headline(verdict)}.",
            sure=session.choices.get(photo, Choice()).doubted,
        )
    if result.status == "outlier" and session.person_id:
        return Decision(
            photo, result, other=session.name, other_id=session.person_id,
            other_face=service.face_of(session.person_id),
        )  # fmt: skip
    return Decision(photo, result)
