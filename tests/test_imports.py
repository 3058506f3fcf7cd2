"""The arrows between rooms, read from the source."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest

from tests.paths import ROOT

ALLOWED = {
    "model": {"model"},
    "index": {"index", "model.types", "model.errors", "model.atomic", "model.__version__"},
    "training": {"training", "model", "index"},
    "app": {"app", "index", "model"},
}
ROOMS = {*ALLOWED, "tests"}


def imported(file: Path) -> set[str]:
    """Every module a file imports, wherever in the file; relative imports made absolute."""
    package = file.relative_to(ROOT).with_suffix("").parts[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else ()
            base = ".".join([*above, *([node.module] if node.module else [])])
            names |= {base} if base in ("model.types", "model.errors") else set()
            names |= {f"{base}.{alias.name}" for alias in node.names}
    return names


def allowed(name: str, room: str) -> bool:
    if name.split(".")[0] not in ROOMS:
        return True
    return any(name == target or name.startswith(f"{target}.") for target in ALLOWED[room])


@pytest.mark.parametrize("room", ALLOWED)
def test_a_room_imports_only_what_the_architecture_allows(room: str) -> None:
    wrong = [
        f"{file.relative_to(ROOT)} imports {name}"
        for file in sorted((ROOT / room).rglob("*.py"))
        for name in sorted(imported(file))
        if not allowed(name, room)
    ]
    assert not wrong


def test_the_check_sees_a_forbidden_import(tmp_path: Path) -> None:
    assert not allowed("training.learn.loop", "app")
    assert not allowed("model.embedding.embedder", "index")
    assert not allowed("index.gallery", "model")
    assert allowed("model.types.Face", "index")
    assert allowed("numpy", "index")


MOST_MODULES, MOST_LINES = 14, 300


@pytest.mark.parametrize("room", sorted(ROOMS))
def test_a_folder_can_be_taken_in_at_a_glance(room: str) -> None:
    modules = Counter(file.parent for file in (ROOT / room).rglob("*.py"))
    assert not {str(folder): n for folder, n in modules.items() if n > MOST_MODULES}


@pytest.mark.parametrize("room", ALLOWED)
def test_a_module_is_no_longer_than_a_few_pages(room: str) -> None:
    lines = {
        str(file): len(file.read_text(encoding="utf-8").splitlines())
        for file in (ROOT / room).rglob("*.py")
    }
    assert not {file: n for file, n in lines.items() if n > MOST_LINES}


def test_onnx_runtime_is_imported_where_its_telemetry_is_turned_off() -> None:
    files = (file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    importing = [file for file in files if "onnxruntime" in imported(file)]
    assert importing == [ROOT / "model" / "onnx_runtime.py"]
