"""Turn scores into decisions with measured error rates; "inconclusive" is a valid decision.

Thresholds are chosen on one half of the people, and their rates are measured on the other half.
Rates at a given score use all pairs, because nothing was chosen there.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from model.atomic import made_whole
from model.calibration.files import as_text, content_hash, decode, encode, read_file
from model.calibration.fit import check_photos, check_scores, fit_embeddings, fit_scores
from model.calibration.kinds import Copies
from model.calibration.pairs.further import Further
from model.calibration.pairs.people import STRANGER_PHOTOS, draw_photos
from model.calibration.pairs.scores import Progress
from model.calibration.rates import UNUSABLE, Rates
from model.calibration.types import Parts
from model.calibration.warnings import calibration_warnings
from model.errors import BundleMismatch, CalibrationError
from model.types import Decision, Verdict
from model.wording import verdict_reasons

FORMAT = 1
CODE_VERSION = "5"
"""Increased when the same scores would give a different calibration."""

TARGET_FNMR = 0.01
MAX_PHOTOS = 10


_FACTS = (
    "code_version", "model_id", "protocol", "data_fingerprint", "created", "photos", "seed",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Calibration(Rates):
    """The measured meaning of a model's scores, on people it was not trained on.

    Attributes:
        protocol: Description of the people and pairs used.
        created: ISO date and time, UTC.
        photos: Number of photos; 0 if only scores were given.
        seed: Seed of the split into halves.
        warnings: Limits of this calibration, as sentences.
        code_version: `CODE_VERSION` at the time of fitting.
    """

    model_id: str
    protocol: str
    data_fingerprint: str
    created: str
    photos: int
    seed: int
    warnings: tuple[str, ...] = ()
    code_version: str = CODE_VERSION

    @classmethod
    def fit(
        cls,
        embeddings: np.ndarray,
        labels: np.ndarray,
        *,
        model_id: str,
        quality: np.ndarray | None = None,
        groups: Sequence[str] | None = None,
        copies: Copies | None = None,
        protocol: str,
        data_fingerprint: str,
        seed: int = 0,
        max_photos: int | None = MAX_PHOTOS,
        further: Sequence[Further] = (),
        progress: Progress | None = None,
    ) -> Calibration:
        """Calibrate on labelled photos of people the model was not trained on.

        Only a few photos of a person are used, and fewer still in impostor pairs. Otherwise the
        people with the most photos would dominate the rates; see `draw_photos`.

        Args:
            embeddings: float32 ``(N, D)`` unit vectors.
            labels: int ``(N,)``, equal for photos of one person.
            quality: ``(N,)`` quality scores in ``[0, 1]``, or None.
            groups: ``N`` group names from the user, empty where unknown, or None.
            copies: Degraded copies of the photos, for the rates of poor photos; needs ``quality``.
            seed: Seed of the split into halves, the choice of photos and the bootstrap.
            max_photos: Most photos used per person; None for all photos and all pairs.
            further: Further collections on which the thresholds must hold too.
            progress: Called with the number of pairs done and the total.

        Raises:
            CalibrationError: There are too few people or photos.
        """
        embeddings, labels = np.asarray(embeddings), np.asarray(labels)
        check_photos(embeddings, labels, quality, groups)
        rows, meeting = draw_photos(labels, max_photos, seed)
        if max_photos is not None:
            protocol += (
                f"; at most {max_photos} photos of a person, {len(rows):,} in all, at most "
                f"{STRANGER_PHOTOS} of them in stranger pairs, {meeting.sum():,} in all"
            )
        embeddings, labels = embeddings[rows], labels[rows]
        quality = None if quality is None else np.asarray(quality)[rows]
        groups = None if groups is None else np.asarray(groups)[rows]
        copies = None if copies is None else copies.drawn(rows)
        parts = fit_embeddings(
            embeddings, labels, quality, groups, seed, progress, meeting, copies, further
        )
        return cls._of(parts, model_id, protocol, data_fingerprint, len(labels), seed)

    @classmethod
    def from_scores(
        cls,
        genuine: np.ndarray,
        impostor: np.ndarray,
        *,
        model_id: str,
        protocol: str,
        data_fingerprint: str,
        seed: int = 0,
    ) -> Calibration:
        """Calibrate scores of any tool; higher must mean more similar.

        The people are unknown, so intervals assume independent pairs and are too narrow.
        """
        check_scores(genuine, impostor)
        parts = fit_scores(np.asarray(genuine), np.asarray(impostor), seed)
        return cls._of(parts, model_id, protocol, data_fingerprint, 0, seed)

    @classmethod
    def _of(
        cls, parts: Parts, model_id: str, protocol: str, fingerprint: str, photos: int, seed: int
    ) -> Calibration:
        created = datetime.now(UTC).isoformat(timespec="seconds")
        # Encode and decode, so that these values equal those loaded from the file later.
        parts = decode(encode(parts))
        draft = cls(parts, model_id, protocol, fingerprint, created, photos, seed)
        return replace(draft, warnings=calibration_warnings(draft))

    def decide(
        self,
        score: float,
        target_fmr: float = 1e-4,
        *,
        quality: float | None = None,
        prior: float | None = None,
    ) -> Verdict:
        """Decide ``same``, ``different`` or ``inconclusive``, with the evidence.

        ``same`` at or above the threshold for ``target_fmr``. ``different`` below the score that
        all but `TARGET_FNMR` of same-person pairs reach, if such scores are likelier for
        strangers. ``inconclusive`` in between.

        Args:
            score: Cosine similarity of two embeddings of this calibration's model.
            target_fmr: Largest false-match rate to allow.
            quality: The lower quality of the two photos, if known.
            prior: Prior probability of "same person", if known.
        """
        for name, value in (("score", score), ("quality", quality)):
            if value is not None and not math.isfinite(value):
                raise ValueError(f"{name} is {value}; it must be a finite number")
        if prior is not None and not 0 < prior < 1:
            raise ValueError(f"prior is {prior}; it must lie between 0 and 1")
        limit = self.threshold(target_fmr)
        accept, reject = self.limits(target_fmr, TARGET_FNMR, quality)
        bins = self.parts.quality
        too_poor = bool(bins) and quality is not None and quality < bins[0].low
        decision: Decision = "inconclusive"
        if not too_poor and score >= accept:
            decision = "same"
        elif not too_poor and score < reject:
            decision = "different"
        ratio = None if too_poor else self.likelihood_ratio(score)
        posterior = None
        if prior is not None and ratio is not None:
            posterior = ratio * prior / (ratio * prior + 1 - prior)
        summary = self.parts.summary
        pooled = math.sqrt((summary.genuine.std**2 + summary.impostor.std**2) / 2)
        verdict = Verdict(
            decision=decision,
            score=float(score),
            threshold=accept,
            reject_below=reject,
            target_fmr=target_fmr,
            fmr=self.fmr_at(score, quality),
            fnmr=self.fnmr_at(score, quality),
            likelihood_ratio=ratio,
            posterior=posterior,
            prior=prior,
            d_genuine=(score - summary.genuine.mean) / pooled,
            d_impostor=(score - summary.impostor.mean) / pooled,
            supported=limit.supported,
            calibration_id=self.id,
            model_id=self.model_id,
        )
        reasons = verdict_reasons(verdict, limit, quality, too_poor)
        return replace(verdict, reasons=reasons)

    @property
    def _cautious(self) -> bool:
        return int(self.code_version) >= 5

    @cached_property
    def id(self) -> str:
        """Short hash of the contents."""
        return content_hash(self._contents())

    def check_model(self, model_id: str) -> None:
        """Raise `BundleMismatch` unless this calibration was made for ``model_id``."""
        if model_id != self.model_id:
            raise BundleMismatch(
                f"The calibration {self.id} was measured with model {self.model_id[:12]}, not with "
                f"{model_id[:12]}. Calibrate this model: python -m training calibrate.",
                expected=model_id,
                found=self.model_id,
            )

    def to_dict(self) -> dict[str, Any]:
        return {"id": self.id, **self._contents()}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Calibration:
        """Rebuild a calibration from `to_dict`.

        Raises:
            CalibrationError: It is newer than this code, incomplete, or was changed.
        """
        if data.get("format", FORMAT + 1) > FORMAT:
            raise CalibrationError(
                f"This calibration has format {data.get('format')}; this version reads up to "
                f"{FORMAT}. Update the program or calibrate again."
            )
        try:
            calibration = cls._from_contents(data)
            # Hash the data as written: a later version may derive other thresholds from the counts.
            found = content_hash({name: value for name, value in data.items() if name != "id"})
        except UNUSABLE as error:
            raise CalibrationError(f"The calibration is incomplete: {error!r}.") from error
        if data.get("id") != found:
            raise CalibrationError(
                f"The calibration names itself {data.get('id')} but its contents are {found}: it "
                "was changed after it was made. Calibrate again."
            )
        calibration.check_parts()
        return calibration

    def to_json(self) -> str:
        return as_text(self.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        with made_whole(Path(path)) as partial:
            partial.write_text(self.to_json(), encoding="utf-8")

    @classmethod
    def load(cls, path: str | os.PathLike[str], model_id: str | None = None) -> Calibration:
        """Read a calibration.

        Raises:
            CalibrationError: It cannot be read or was changed.
            BundleMismatch: It was made for a model other than ``model_id``.
        """
        calibration = cls.from_dict(read_file(Path(path)))
        if model_id is not None:
            calibration.check_model(model_id)
        return calibration

    def _contents(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            **{name: getattr(self, name) for name in _FACTS},
            "warnings": list(self.warnings),
            "targets": [target.to_dict() for target in self.targets],
            **encode(self.parts),
        }

    @classmethod
    def _from_contents(cls, data: dict[str, Any]) -> Calibration:
        facts = {name: data[name] for name in _FACTS}
        return cls(decode(data), warnings=tuple(data["warnings"]), **facts)
