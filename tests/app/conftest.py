"""A service on a small real model and an empty gallery, its API, and photos to give it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from app.service import FaceService
from app.settings import Settings
from app.web import api
from tests import samples
from tests.app import helpers
from tests.app.helpers import BASE, Photos


@pytest.fixture(scope="session")
def photos() -> Photos:
    return Photos(
        collins=helpers.encoded(samples.collins()),
        collins_again=helpers.encoded(samples.second_photo(samples.collins())),
        hopper=helpers.encoded(samples.hopper()),
        hopper_again=helpers.encoded(samples.second_photo(samples.hopper())),
        both=helpers.encoded(samples.pair()),
        nobody=helpers.blank(),
    )


@pytest.fixture(scope="session")
def bundle_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return helpers.make_bundle(tmp_path_factory.mktemp("bundle") / "stand-in")


@pytest.fixture
def settings(tmp_path: Path, bundle_folder: Path) -> Settings:
    return Settings(data=tmp_path / "data", bundle=bundle_folder, rate_per_minute=0)


@pytest.fixture
def service(settings: Settings) -> Iterator[FaceService]:
    service = FaceService.open(settings)
    yield service
    service.close()


@pytest.fixture
def client(service: FaceService) -> Iterator[TestClient]:
    with TestClient(api.create(service), BASE, raise_server_exceptions=False) as client:
        yield client
