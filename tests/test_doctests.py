"""The examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib

import pytest

from tests.paths import ROOT

MODULES = [
    ".".join(file.relative_to(ROOT).with_suffix("").parts)
    for room in ("app", "model", "index", "training")
    for file in sorted((ROOT / room).rglob("*.py"))
    if ">>> " in file.read_text()
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_run(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    found = doctest.testmod(importlib.import_module(name))
    assert found.attempted > 0
    assert found.failed == 0
