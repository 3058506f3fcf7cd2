"""FaceService: the entry point to every use-case, called by the page, the API and the command line.

Each method checks the caller's scope, then calls a use-case module. Methods that take a photo,
compare faces or change something write to the audit log. Methods that only read do not, nor does
:meth:`FaceService.occlusion_map`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from app.audit import AuditLog
from app.auth import KeyStore, Principal
from app.context import Context
from app.settings import Settings
from app.usecases import calibrate as own_calibration
from app.usecases import many as many_photos
from app.usecases import search as search_gallery
from app.usecases import verify as verify_photos
from app.usecases.many import Clustered, Pair, PairAnswer
from app.usecases.people import PeopleService
from app.usecases.progress import Progress
from app.usecases.results import (
    Compared,
    FaceSearch,
    ModelInfo,
    Photo,
    Search,
    Verification,
)
from app.usecases.verify import Evidence
from model.calibration import Calibration


@dataclass(frozen=True)
class FaceService(PeopleService):
    """Every use-case, for one principal; :class:`PeopleService` has the gallery's."""

    @classmethod
    def open(cls, settings: Settings | None = None, *, threads: int | None = None) -> FaceService:
        """Load the model, the calibration and the gallery.

        Args:
            settings: How the app runs; None reads the settings file and the environment.
            threads: CPU threads for the network; None uses all cores.

        Raises:
            BundleError: The model is missing or damaged.
            BundleMismatch: The gallery was made with another model.
            WrongKey: The gallery is encrypted and the key is wrong.
        """
        settings = settings or Settings.load()
        settings.prepare()
        context = Context.open(settings, threads=threads)
        try:
            keys = KeyStore(context.stores.keys, required=not settings.private)
        except BaseException:
            context.close()
            raise
        return cls(context=context, keys=keys, audit=AuditLog(context.stores.audit))

    def close(self) -> None:
        """Release the gallery; the service cannot be used afterwards."""
        self.context.close()

    @property
    def settings(self) -> Settings:
        return self.context.settings

    def acting_as(self, principal: Principal) -> FaceService:
        """Return the same service for another principal. Cheap: everything is shared."""
        return replace(self, principal=principal)

    def for_user(self, user: str | None) -> FaceService:
        """Return the service for the page's logged-in user (``gr.Request.username``).

        Raises:
            NotAuthenticated: A key is required, and the user has none or it was revoked.
        """
        return self.acting_as(self.keys.user(user))

    def detect(self, image: bytes) -> Photo:
        """Find the faces in a photo, with crops and quality, largest first; may find none.

        Raises:
            BadImage: The bytes are not an accepted image. Every method that takes a photo
                raises this.
        """
        self.principal.require("read")
        photo = self.context.pipeline.photo(image)
        self._log("detect", faces=len(photo.faces))
        return photo

    def embed(self, image: bytes) -> tuple[Photo, np.ndarray]:
        """Return the faces in a photo and their float32 unit vectors ``(N, D)``."""
        self.principal.require("read")
        photo, vectors = search_gallery.embed(self.context, image)
        self._log("embed", faces=len(photo.faces))
        return photo, vectors

    def verify(
        self,
        image_a: bytes,
        image_b: bytes,
        *,
        target_fmr: float | None = None,
        prior: float | None = None,
        face_a: int | None = None,
        face_b: int | None = None,
    ) -> Verification:
        """Decide whether two photos show the same person.

        If a photo has several candidate faces and no number is given, no face is picked: the
        result is a ``ChoiceNeeded`` with the verdict of every pair.

        Args:
            target_fmr: Highest allowed false-match rate; None for the settings' value.
            prior: Prior probability of "same person", for ``Verdict.posterior``.
            face_a: Number of the face to compare in the first photo, from 1, largest first.
            face_b: The same for the second photo.

        Raises:
            NoFace: A photo shows no face, or none with that number.
            CalibrationError: The calibration cannot support the target.
        """
        self.principal.require("read")
        result = verify_photos.verify(
            self.context, image_a, image_b, target_fmr=target_fmr, prior=prior, face_a=face_a,
            face_b=face_b,
        )  # fmt: skip
        if isinstance(result, Compared):
            self._log("verify", verdict=result.verdict.decision, pairs=1)
        else:
            self._log("verify", verdict="choice_needed", pairs=len(result.pairs))
        return result

    def verify_many(
        self,
        pairs: Sequence[Pair],
        read: Callable[[str], bytes],
        *,
        target_fmr: float | None = None,
        cancel: threading.Event | None = None,
    ) -> Iterator[PairAnswer]:
        """Compare pairs of photos one after another; each pair gets a verdict or an error.

        Args:
            read: Returns a photo's bytes, given its name.
            cancel: Set it to stop; the work ends with ``Cancelled``.
        """
        self.principal.require("read")
        self._log("verify_many", pairs=len(pairs))
        return many_photos.verify_many(
            self.context, pairs, read, target_fmr=target_fmr, cancel=cancel
        )

    def cluster(
        self,
        photos: Sequence[str],
        read: Callable[[str], bytes],
        *,
        target_fmr: float | None = None,
        progress: Progress | None = None,
    ) -> Clustered:
        """Group photos of unknown people by person, using the calibrated threshold."""
        self.principal.require("read")
        found = many_photos.cluster(
            self.context, photos, read, target_fmr=target_fmr, progress=progress
        )
        self._log("cluster", photos=len(photos), groups=len(found.groups))
        return found

    def occlusion_map(
        self,
        crop_a: np.ndarray,
        crop_b: np.ndarray,
        *,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> Evidence:
        """Measure which regions of two crops, uint8 ``(112, 112, 3)``, carry their similarity."""
        self.principal.require("read")
        return verify_photos.occlusion_map(
            self.context, crop_a, crop_b, progress=progress, cancel=cancel
        )

    def search(
        self,
        image: bytes,
        *,
        top: int = 5,
        target_fpir: float | None = None,
        face: int | None = None,
    ) -> Search:
        """Identify the faces in a photo.

        Args:
            top: Most people listed per face.
            target_fpir: Highest allowed chance that a stranger matches anyone in the gallery;
                None for the settings' value.
            face: Search for this face only, from 1, largest first.
        """
        self.principal.require("read")
        result = search_gallery.search(
            self.context, image, top=top, target_fpir=target_fpir, face=face
        )
        self._log(
            "search",
            faces=len(result.faces),
            verdict=[_best_known(found) for found in result.faces],
        )
        return result

    def model_info(self) -> ModelInfo:
        self.principal.require("read")
        return self.context.info()

    def calibration(self) -> Calibration:
        """Return the calibration in use.

        Raises:
            CalibrationError: There is none.
        """
        self.principal.require("read")
        return self.context.need_calibration()

    def calibrate_on(
        self,
        source: bytes | Path,
        *,
        progress: Progress | None = None,
        cancel: threading.Event | None = None,
    ) -> own_calibration.OwnCalibration:
        """Calibrate on the user's own photos; nothing changes until :meth:`activate`.

        Args:
            source: The bytes of a zip with one folder per person, or a folder inside the
                settings' ``own_photos``.

        Raises:
            CalibrationError: There are too few people or photos, or the folder may not be read.
        """
        self.principal.require("admin")
        result = own_calibration.measure(self.context, source, progress=progress, cancel=cancel)
        self._log("calibrate", calibration=result.calibration.id, people=result.people)
        return result

    def activate(self, calibration: Calibration | None) -> None:
        """Use this calibration from now on, also after a restart; None for the bundle's own."""
        self.principal.require("admin")
        self.context.active.activate(calibration)
        self._log("activate", calibration=calibration.id if calibration else None)


def _best_known(found: FaceSearch) -> str | None:
    best = next((each for each in found.candidates if each.known), None)
    return best.match.person_id if best else None
