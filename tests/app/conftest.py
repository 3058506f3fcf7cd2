"""A service on a small real model and an empty gallery, and photos to give it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.service import FaceService
from app.settings import Settings
from tests import samples
from tests.app import helpers


@dataclass(frozen=True)
class Photos:
    """Encoded photos: two of Collins, two of Hopper, both in one, nobody."""

    collins: bytes
    collins_again: bytes
    hopper: bytes
    hopper_again: bytes
    both: bytes
    nobody: bytes


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
