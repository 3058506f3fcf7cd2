"""The parts every use-case works with, opened once and shared by all requests."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from app.gallery_key import gallery_key
from app.settings import Settings
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

ACTIVE = "active.json"
"""The calibration a user activated, in the settings' folder of calibrations."""


@dataclass
class Context:
    """One model, one gallery.

    Attributes:
        settings: How the app runs.
        bundle: The model.
        pipeline: Photo to faces to vectors.
        gallery: People and their embeddings.
        search: The gallery's index.
        calibration: The calibration in use, or None for a bundle that has none yet.
    """

    settings: Settings
    bundle: Bundle
    pipeline: Pipeline
    gallery: Gallery
    search: PeopleSearch
    calibration: Calibration | None

    @classmethod
    def open(cls, settings: Settings, *, threads: int | None = None) -> Context:
        """Load everything; see :meth:`app.service.FaceService.open`."""
        bundle = Bundle.load(settings.bundle)
        embedder = Embedder(bundle, engine=settings.engine, device=settings.device, threads=threads)
        detector = Detector()
        pipeline = Pipeline(detector, embedder, settings)
        with ExitStack() as opened:
            opened.callback(pipeline.close)
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
            context = cls(
                settings, bundle, pipeline, gallery, search, _calibration(settings, bundle)
            )
            opened.pop_all()
        return context

    def close(self) -> None:
        """Save the index and release the gallery."""
        self.pipeline.close()
        self.search.close()
        self.gallery.close()

    def need_calibration(self) -> Calibration:
        """The calibration in use.

        Raises:
            CalibrationError: The bundle has none and none was activated.
        """
        if self.calibration is None:
            raise CalibrationError(
                f"The model {self.bundle.name!r} has no calibration, so its scores cannot be "
                "judged. Calibrate it on photos of people it has not seen."
            )
        return self.calibration

    def info(self) -> ModelInfo:
        """The model, engine, calibration and index in use."""
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
            calibration_id=self.calibration.id if self.calibration else None,
            index=self.search.stats().to_dict(),
        )


def active_file(settings: Settings) -> Path:
    """Where the calibration a user activated is kept."""
    return settings.calibrations_folder / ACTIVE


def _calibration(settings: Settings, bundle: Bundle) -> Calibration | None:
    active = active_file(settings)
    if active.exists():
        try:
            return Calibration.load(active, model_id=bundle.model_id)
        except BundleMismatch:
            log.warning(
                "The calibration in %s was made for the weights of another model. The model's own "
                "is used. Measure again on your photos.", active,
            )  # fmt: skip
    return bundle.calibration
