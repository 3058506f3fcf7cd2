"""What `pip install .` brings, `--version`, and the quick start of the README."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from model import __version__
from tests.paths import ROOT

SMALL = 200_000
"""Bytes; larger files are packed empty, which is quicker."""


def _sparing(source: str, target: str) -> str:
    if Path(source).stat().st_size > SMALL:
        Path(target).touch()
        return target
    return shutil.copy2(source, target)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    pytest.importorskip("setuptools")
    source = tmp_path_factory.mktemp("source")
    skip = shutil.ignore_patterns("__pycache__", "results", "screenshots")
    for name in ("app", "model", "index", "training"):
        shutil.copytree(ROOT / name, source / name, copy_function=_sparing, ignore=skip)
    for name in ("pyproject.toml", "requirements-common.txt"):
        shutil.copy2(ROOT / name, source)
    build = "from setuptools.build_meta import build_wheel; print(build_wheel('out'))"
    done = subprocess.run(
        [sys.executable, "-c", build], cwd=source, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return zipfile.ZipFile(next((source / "out").glob("*.whl")))


def test_a_wheel_holds_what_the_program_reads(wheel: zipfile.ZipFile) -> None:
    held = set(wheel.namelist())
    kinds = {".py", ".onnx", ".json", ".html", ".css", ".js", ".safetensors", ".jpg"}
    for room in ("app", "model", "index"):
        files = (file for file in (ROOT / room).rglob("*") if file.suffix in kinds)
        wanted = {file.relative_to(ROOT).as_posix() for file in files}
        assert wanted <= held | {name for name in wanted if "__pycache__" in name}
    assert not [name for name in held if name.startswith("tests")]


def test_a_wheel_has_the_command_its_version_and_what_it_needs(wheel: zipfile.ZipFile) -> None:
    folder = f"face_verification-{__version__}.dist-info"
    assert "face = app.__main__:run" in wheel.read(f"{folder}/entry_points.txt").decode()
    needs = wheel.read(f"{folder}/METADATA").decode()
    for name in ("onnxruntime", "faiss-cpu", "fastapi"):
        assert re.search(rf"^Requires-Dist: {name}[<>=]", needs, re.MULTILINE)


@pytest.mark.parametrize("package", ["app", "app.enroll", "model", "index", "training"])
def test_every_command_tells_its_version(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", package, "--version"], cwd=ROOT, capture_output=True, text=True
    )
    assert (done.returncode, done.stdout.strip()) == (0, __version__)


def test_the_quick_start_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    block = text.split("<!-- quick start -->\n```python\n")[1].split("```")[0]
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "sample_photos").symlink_to(ROOT / "app" / "sample_photos")
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(block, space)
    space["service"].close()
    assert space["verdict"].decision == "different"
    assert "different" in capsys.readouterr().out
    assert len(block.splitlines()) <= 10
