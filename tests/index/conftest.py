"""Fixtures of the index tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from index.gallery import Gallery
from tests.index.helpers import MODEL, Faces
from tests.index.milvus_server import MilvusServer
from tests.index.postgresql_server import PostgresServer, start_server


@pytest.fixture
def faces() -> Faces:
    return Faces()


@pytest.fixture
def gallery(tmp_path: Path) -> Iterator[Gallery]:
    with Gallery.open(tmp_path / "data", model_id=MODEL) as opened:
        yield opened


@dataclass(frozen=True)
class Place:
    """Where a gallery lives; opened as often as a test likes."""

    folder: Path
    url: str | None = None

    def open(self, **options: object) -> Gallery:
        return Gallery.open(self.folder, url=self.url, **({"model_id": MODEL} | options))


@pytest.fixture(scope="session")
def postgresql() -> Iterator[PostgresServer]:
    server = start_server()
    yield server
    server.remove()


@pytest.fixture(params=["sqlite", "postgresql"])
def new_place(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[], Place]:
    """Makes places for galleries in either database."""

    def make() -> Place:
        folder = tmp_path_factory.mktemp("gallery")
        if request.param == "sqlite":
            return Place(folder)
        return Place(folder, request.getfixturevalue("postgresql").new_gallery())

    return make


@pytest.fixture
def place(new_place: Callable[[], Place]) -> Place:
    return new_place()


@pytest.fixture(scope="session")
def milvus_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MilvusServer]:
    """A real Milvus server, or a skip where its program is not installed."""
    program = os.environ.get("MILVUS_SERVER") or shutil.which("milvus-server")
    if program is None:
        pytest.skip("no milvus-server; pip install milvus==2.3.5 and set MILVUS_SERVER to it")
    server = MilvusServer(program, tmp_path_factory.mktemp("milvus"))
    server.start()
    yield server
    server.stop()
