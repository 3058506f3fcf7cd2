"""Fixtures every room uses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.paths import ROOT

os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """The folder of real datasets, or a skip where there is none."""
    folder = Path(os.environ.get("FACE_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"no datasets at {folder}; set FACE_SHARED to the folder that holds data/")
    return folder


@pytest.fixture(scope="session", autouse=True)
def private_cache(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Derived files of the tests stay out of the user's cache."""
    os.environ["FACE_CACHE"] = str(tmp_path_factory.mktemp("cache"))
