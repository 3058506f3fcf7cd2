"""Fixtures of the index tests."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from index.gallery import Gallery
from tests.index.helpers import MODEL, Faces
from tests.index.milvus_server import MilvusServer


@pytest.fixture
def faces() -> Faces:
    return Faces()


@pytest.fixture
def gallery(tmp_path: Path) -> Iterator[Gallery]:
    with Gallery.open(tmp_path / "data", model_id=MODEL) as opened:
        yield opened


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
