"""The model, gallery and stores that every use-case needs: opened once, shared by all requests."""

from __future__ import annotations

import json
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.documents import Document
from app.gallery_key import gallery_key
from app.settings import Settings
from app.stores import Stores
from app.usecases.pipeline import Pipeline
from app.usecases.results import ModelInfo
from index.gallery import Gallery
from index.search import PeopleSearch
from model.bundle import Bundle
from model.calibration import Calibration
from model.embedding.embedder import Embedder
from model.errors import BundleMismatch, CalibrationError
from model.faces.detect import Detector

log = logging.getLogger(__name__)


def how_to_calibrate(bundle: Path | str) -> str:
    """Return the command that calibrates a bundle."""
    return f"python -m training calibrate --bundle {bundle} --data PHOTOS"


@dataclass(frozen=True)
class Context:
    """One model and one gallery.

    Attributes:
        pipeline: Turns photos into faces and faces into vectors.
        stores: API keys, the active calibration and the audit log.
    """

    settings: Settings
    bundle: Bundle
    pipeline: Pipeline
    gallery: Gallery
    search: PeopleSearch
    active: ActiveCalibration
    stores: Stores

    @classmethod
    def open(cls, settings: Settings, *, threads: int | None = None) -> Context:
        """Load everything; see :meth:`app.service.FaceService.open`."""
        bundle = Bundle.load(settings.bundle)
        embedder = Embedder(bundle, engine=settings.engine, device=settings.device, threads=threads)
        detector = Detector()
        pipeline = Pipeline(detector, embedder, settings)
        with ExitStack() as opened:
            opened.callback(pipeline.close)
            stores = Stores.open(settings)
            opened.callback(stores.close)
            active = ActiveCalibration(stores.calibration, bundle)
            gallery = Gallery.open(
                settings.gallery_folder,
                url=settings.gallery or None,
                secrets_url=settings.gallery_secrets or None,
                model_id=bundle.model_id,
                key=gallery_key(settings),
                dimension=pipeline.dim,
            )
            opened.callback(gallery.close)
            search = PeopleSearch.open(gallery, settings.index, dimension=pipeline.dim)
            opened.callback(search.close)
            opened.pop_all()
        return cls(settings, bundle, pipeline, gallery, search, active, stores)

    def close(self) -> None:
        self.pipeline.close()
        self.search.close()
        self.gallery.close()
        self.stores.close()

    @property
    def calibration(self) -> Calibration | None:
        """The calibration in use, or None for a bundle that has none yet."""
        return self.active.current()

    def need_calibration(self) -> Calibration:
        """Return the calibration in use.

        Raises:
            CalibrationError: The bundle has none and none was activated.
        """
        calibration = self.calibration
        if calibration is None:
            raise CalibrationError(
                f"The model {self.bundle.name!r} has no calibration, so its scores cannot be "
                "judged. Calibrate it on photos of people it has not seen: "
                + how_to_calibrate("BUNDLE")
            )
        return calibration

    def info(self) -> ModelInfo:
        calibration = self.calibration
        return ModelInfo(
            name=self.bundle.name,
            model_id=self.bundle.model_id,
            dim=self.pipeline.dim,
            engine=self.pipeline.embedder.engine,
            device=self.pipeline.embedder.device,
            card=self.bundle.card,
            provenance=dict(self.bundle.provenance),
            metrics=dict(self.bundle.metrics),
            versions=dict(self.bundle.versions),
            calibration_id=calibration.id if calibration else None,
            index=self.search.stats().to_dict(),
        )


class ActiveCalibration:
    """The calibration in use: the one last activated by any server, else the bundle's own.

    Raises:
        CalibrationError: The activated calibration cannot be read. Every method raises this.
    """

    def __init__(self, document: Document, bundle: Bundle) -> None:
        self._document = document
        self._bundle = bundle
        # One tuple, so that no thread pairs an old stamp with a new calibration.
        self._known: tuple[object | None, Calibration | None] = (None, bundle.calibration)
        self.current()

    def current(self) -> Calibration | None:
        """Return the calibration in use, or None for a bundle that has none yet."""
        stamp = self._document.stamp()
        if stamp != self._known[0]:
            self._known = stamp, self._read() if stamp is not None else self._bundle.calibration
        return self._known[1]

    def activate(self, calibration: Calibration | None) -> None:
        """Use this calibration from now on, also after a restart; None for the bundle's own."""
        if calibration is not None:
            calibration.check_model(self._bundle.model_id)
        content = None if calibration is None else calibration.to_json().encode()
        self._document.change(lambda _: content)

    def _read(self) -> Calibration | None:
        try:
            calibration = Calibration.from_dict(json.loads(self._document.read()))
            calibration.check_model(self._bundle.model_id)
        except BundleMismatch:
            log.warning(
                "The calibration in %s was made for the weights of another model. The model's own "
                "is used. Measure again on your photos.", self._document.name,
            )  # fmt: skip
            return self._bundle.calibration
        except (OSError, ValueError) as error:
            raise CalibrationError(
                f"The activated calibration {self._document.name!r} cannot be read: {error}. "
                "Remove it, or activate another."
            ) from error
        return calibration
