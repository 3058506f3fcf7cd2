"""The bundle that ships, through the service: quick to start, right on the sample photos."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.service import FaceService
from app.settings import Settings
from app.usecases.results import Upload
from model.bundle import DEFAULT
from tests.app.helpers import Photos


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FaceService]:
    if not (DEFAULT / "bundle.json").exists():
        pytest.skip(f"there is no bundle in {DEFAULT}")
    settings = Settings(data=tmp_path_factory.mktemp("shipped"), bundle=DEFAULT)
    # The first start makes the engine's own form of the model, the second finds it.
    FaceService.open(settings).close()
    service = FaceService.open(settings)
    yield service
    service.close()


def test_it_starts_in_five_seconds(service: FaceService, tmp_path: Path) -> None:
    started = time.process_time()
    FaceService.open(dataclasses.replace(service.settings, data=tmp_path)).close()
    assert time.process_time() - started < 5


def test_same_and_not_same(service: FaceService, photos: Photos) -> None:
    for first, second in (
        (photos.collins, photos.collins_again),
        (photos.hopper, photos.hopper_again),
    ):
        assert service.verify(first, second).verdict.decision == "same"
    strangers = service.verify(photos.collins, photos.hopper).verdict
    assert strangers.decision != "same"
    assert strangers.likelihood_ratio < 1


def test_enroll_search_forget(service: FaceService, photos: Photos) -> None:
    eileen = service.enroll("Eileen", [Upload("1.jpg", photos.collins)]).person_id
    grace = service.enroll("Grace", [Upload("1.jpg", photos.hopper)]).person_id
    found = service.search(photos.both)
    assert [face.candidates[0].match.person_id for face in found.faces] == [grace, eileen]
    assert all(face.known for face in found.faces)
    service.forget(grace)
    assert not service.search(photos.hopper_again).faces[0].known
    service.forget(eileen)
