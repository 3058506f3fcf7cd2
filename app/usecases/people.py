"""The service's gallery use-cases: enroll, list, review, change and erase people."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.audit import AuditLog
from app.auth import LOCAL, KeyStore, Principal, Scope
from app.context import Context
from app.usecases import enroll as enroll_photos
from app.usecases import review as review_gallery
from app.usecases.progress import Progress
from app.usecases.results import Enrollment, Upload
from app.usecases.review import Likeness, Review
from index import types
from index.types import Erased, Person, StoredPhoto
from model.errors import GalleryError, IndexUnavailable, UnknownPerson


@dataclass(frozen=True)
class PeopleService:
    """Gallery use-cases, for one principal.

    Attributes:
        context: Model, gallery and calibration, shared by all requests and threads.
    """

    context: Context
    keys: KeyStore
    audit: AuditLog
    principal: Principal = LOCAL

    def enroll(
        self,
        name: str | None,
        photos: Sequence[Upload],
        *,
        consent: str = "",
        overrides: Mapping[str, str] | None = None,
        person_id: str | None = None,
        new_person: bool = False,
    ) -> Enrollment:
        """Add photos to a new or known person.

        Args:
            name: The person's name. The photos go to the person with that name, or to a new
                person if nobody has it. May be None with ``person_id``.
            consent: How the person agreed; stored with the person.
            overrides: Reason by status (``conflict``, ``outlier``, ``poor_quality``) for storing
                such photos anyway.
            person_id: Add to this person, whatever the name.
            new_person: Create a new person even if someone has that name.

        Raises:
            UnknownPerson: There is no person with that id.
            GalleryError: Several people have that name, or the name is not valid.
        """
        self.principal.require("enroll")
        name = None if name is None else usable_name(name)
        prepared = enroll_photos.prepare(self.context, photos)
        result = enroll_photos.store(
            self.context, name, prepared, consent=consent, overrides=overrides,
            person_id=person_id, new_person=new_person,
        )  # fmt: skip
        self._log(
            "enroll",
            person=result.person_id,
            photos=[photo.status for photo in result.photos],
            overrides=sorted(overrides or {}),
        )
        return result

    def people(self, *, query: str = "", limit: int = 100, offset: int = 0) -> list[Person]:
        """List people, oldest first; ``query`` keeps those whose name contains it."""
        self.principal.require("read")
        return self.context.gallery.reader.people(limit=limit, offset=offset, query=query)

    def named(self, name: str) -> list[Person]:
        """Return everyone with this name, ignoring case and spacing, oldest first."""
        self.principal.require("read")
        return self.context.gallery.reader.find_by_name(name)

    def count(self) -> int:
        self.principal.require("read")
        return self.context.gallery.reader.count()

    def person(self, person_id: str) -> Person:
        """Return one person.

        Raises:
            UnknownPerson: Nobody has that id. Methods that read or change a person raise this too.
        """
        self.principal.require("read")
        return self.context.gallery.reader.get(person_id)

    def photos(self, person_id: str) -> list[StoredPhoto]:
        self.principal.require("read")
        return self.context.gallery.reader.photos(person_id)

    def thumbnail(self, photo_id: str) -> bytes | None:
        """Return the JPEG of a stored photo's crop, or None if thumbnails are not kept."""
        self.principal.require("read")
        return self.context.gallery.reader.thumbnail(photo_id)

    def face_of(self, person_id: str) -> bytes | None:
        """Return the JPEG of a person's first photo, or None if thumbnails are not kept."""
        photos = self.photos(person_id)
        return self.thumbnail(photos[0].id) if photos else None

    def alike(self, first: str, second: str) -> Likeness:
        """Compare two people of the gallery.

        Raises:
            UnknownPerson: One of them does not exist or has no photo.
        """
        self.principal.require("read")
        return review_gallery.alike(self.context, first, second)

    def most_alike(self, person_id: str, most: int = 5) -> list[str]:
        """Return the ids of the other people most similar to a person, most similar first."""
        self.principal.require("read")
        return review_gallery.most_alike(self.context, person_id, most)

    def odd_photos(self, person_id: str) -> dict[str, float]:
        """Return a person's photos that are unlike the others: median score by photo id."""
        self.principal.require("read")
        return review_gallery.odd_photos(self.context, person_id)

    def review(
        self, progress: Progress | None = None, cancel: threading.Event | None = None
    ) -> Review:
        """Find possible duplicates and odd photos in the gallery, by the calibrated thresholds."""
        self.principal.require("read")
        return review_gallery.review(self.context, progress, cancel)

    def rename(self, person_id: str, name: str) -> Person:
        self.principal.require("enroll")
        renamed = self.context.gallery.rename(person_id, usable_name(name))
        self._log("rename", person=person_id)
        return renamed

    def merge(self, keep: str, absorb: str) -> Person:
        """Merge two entries of the same person: move the photos of ``absorb`` to ``keep``."""
        self.principal.require("admin")
        if keep == absorb:
            raise GalleryError("A person cannot be merged with itself. Choose two entries.")
        merged = self.context.gallery.merge(keep, absorb)
        self._log("merge", person=keep, absorbed=absorb)
        return merged

    def remove_photo(self, person_id: str, photo_id: str) -> Erased:
        """Erase one photo of a person.

        Raises:
            UnknownPerson: The person does not exist, or the photo is not theirs.
        """
        self.principal.require("admin")
        gallery = self.context.gallery
        if photo_id not in {photo.id for photo in gallery.reader.photos(person_id)}:
            raise UnknownPerson(f"This person has no photo with the id {photo_id}.")
        return self._erased(
            gallery.remove_photo(photo_id), "remove_photo", person=person_id, photo=photo_id
        )

    def forget(self, person_id: str) -> Erased:
        self.principal.require("admin")
        return self._erased(self.context.gallery.forget(person_id), "forget", person=person_id)

    def _erased(self, erased: Erased, act: str, **about: str) -> Erased:
        """Write the audit log, and erase from the index even if that fails."""
        try:
            self._log(act, **about)
        finally:
            try:
                self.context.search.sync()
            except IndexUnavailable:
                erased = replace(erased, complete=False)
        return erased

    def export(self, file: Path) -> int:
        """Write the whole gallery to a portable file; returns the number of people."""
        self.principal.require("admin")
        self.context.gallery.export(file)
        number = self.context.gallery.reader.count()
        self._log("export", people=number)
        return number

    def import_(self, file: Path, *, existing: str = "error") -> int:
        """Add the people of an exported gallery; returns their number.

        Thumbnails are imported only if the settings keep thumbnails.

        Args:
            existing: ``error`` or ``skip``: what to do with people who already exist.
        """
        self.principal.require("admin")
        number = self.context.gallery.import_(
            file, existing=existing, thumbnails=self.context.settings.keep_thumbnails
        )
        self._log("import", people=number)
        return number

    def allowed(self, scope: Scope) -> bool:
        return self.principal.may(scope)

    def _log(self, what: str, **facts: Any) -> None:
        self.audit.write(self.principal.name, what, **facts)


def usable_name(name: str) -> str:
    """Return a name in the form the gallery stores."""
    try:
        return types.usable_name(name)
    except ValueError:
        raise GalleryError(
            f"A name has 1 to {types.MAX_NAME} characters that can be printed."
        ) from None
